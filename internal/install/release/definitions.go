package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/api/gatewayapi"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/install/values"
	"slipway.dev/slipway/internal/kube"
)

// The label and the annotations by which Helm recognizes its objects (R23).
const (
	helmLabel     = "app.kubernetes.io/managed-by"
	helmManager   = "Helm"
	helmRelease   = "meta.helm.sh/release-name"
	helmNamespace = "meta.helm.sh/release-namespace"
)

// fieldManager is the field manager of what this package writes itself.
const fieldManager = "slipway-install"

// establishTime is how long the API server may take to serve a new definition.
const establishTime = time.Minute

// crds returns the client for CustomResourceDefinitions.
func (c *Client) crds() dynamic.ResourceInterface {
	return c.cluster.Dynamic.Resource(kube.DefinitionResource())
}

// planCRDs plans the definitions of the chart, and those of Gateway API for a runtime
// that serves it: missing ones are created, those of this release updated, and others
// left alone.
func (c *Client) planCRDs(ctx context.Context, plan *Plan) error {
	var foreign []string
	given := values.New(values.Runtime(), plan.spec.Values)
	kept := given.KeepsDefinitions()
	shared, err := gatewayDefinitions(given)
	if err != nil {
		return err
	}
	for _, crd := range slices.Concat(plan.spec.Chart.crds, shared) {
		// The user keeps the definitions of Argo CD outside of the release.
		if group, _, _ := unstructured.NestedString(crd.Object, "spec", "group"); kept && group == "argoproj.io" {
			continue
		}
		// Each request has a timeout of its own: a chart has many definitions.
		bounded, cancel := context.WithTimeout(ctx, requestTime)
		live, err := c.crds().Get(bounded, crd.GetName(), metav1.GetOptions{})
		cancel()
		id := ID{Group: kube.DefinitionResource().Group, Kind: crdKind, Name: crd.GetName()}
		switch {
		case apierrors.IsNotFound(err):
			plan.crds = append(plan.crds, crd)
			plan.Changes = append(plan.Changes, Change{Action: Create, ID: id, After: crd})
		case apierrors.IsForbidden(err):
			// The definition may be there all the same, so the plan goes on.
			plan.Remarks = append(plan.Remarks, "you may not read the CustomResourceDefinition "+crd.GetName()+": a user with that permission must create it")
		case err != nil:
			return fmt.Errorf("read the CustomResourceDefinition %s: %w", crd.GetName(), err)
		case !c.owns(live):
			foreign = append(foreign, crd.GetName())
		case !replaces(crd, live):
			// A newer version of Gateway API, or the same.
		default:
			if err := c.planOwnCRD(ctx, plan, crd, live); err != nil {
				return err
			}
		}
	}
	if len(foreign) > 0 {
		plan.Remarks = append(plan.Remarks, finding.Count(len(foreign), "CustomResourceDefinition is there and belongs to another owner (", "CustomResourceDefinitions are there and belong to another owner (")+strings.Join(foreign, ", ")+"): they stay as they are; slipway crds plan compares them")
	}
	return nil
}

// gatewayDefinitions returns the definitions of Gateway API for a runtime whose edge
// serves it.
func gatewayDefinitions(given values.Document) ([]*unstructured.Unstructured, error) {
	if !given.ServesGateways() {
		return nil, nil
	}
	text, err := gatewayapi.Text()
	if err != nil {
		return nil, err
	}
	return objectsOf(string(text))
}

// replaces reports whether a definition may replace the one of the cluster. Those of
// Gateway API are never downgraded: other controllers use them too.
func replaces(crd, live *unstructured.Unstructured) bool {
	if group, _, _ := unstructured.NestedString(crd.Object, "spec", "group"); group != gatewayapi.Group {
		return true
	}
	return gatewayapi.Definition{Version: crd.GetAnnotations()[gatewayapi.VersionAnnotation]}.Replaces(live.GetAnnotations())
}

// owns reports whether an object has the marks of the release. All three have
// to match: releases of one name can exist in several namespaces.
func (c *Client) owns(object metav1.Object) bool {
	marks := object.GetAnnotations()
	return object.GetLabels()[helmLabel] == helmManager && marks[helmRelease] == c.place.Release && marks[helmNamespace] == c.place.Namespace
}

// planOwnCRD lets the API server compute the new definition in a dry run. It
// adds defaults, so its result is compared and not the chart's text.
func (c *Client) planOwnCRD(ctx context.Context, plan *Plan, crd, live *unstructured.Unstructured) error {
	would, err := c.applyCRD(ctx, crd, true)
	if err != nil {
		return fmt.Errorf("plan the CustomResourceDefinition %s: %w", crd.GetName(), err)
	}
	if reflect.DeepEqual(would.Object["spec"], live.Object["spec"]) {
		return nil
	}
	plan.crds = append(plan.crds, crd)
	plan.Changes = append(plan.Changes, Change{Action: Update, ID: ID{Group: kube.DefinitionResource().Group, Kind: crdKind, Name: crd.GetName()}, Before: onlySpec(live), After: onlySpec(would)})
	return nil
}

// onlySpec returns the part of a definition that is compared.
func onlySpec(crd *unstructured.Unstructured) *unstructured.Unstructured {
	shown := &unstructured.Unstructured{Object: map[string]any{"apiVersion": crd.GetAPIVersion(), "kind": crd.GetKind(), "spec": crd.Object["spec"]}}
	shown.SetName(crd.GetName())
	return shown
}

// applyCRD applies a definition with the marks of the release. Server-side
// apply is forced, because the fields may belong to another manager such as
// helm.
func (c *Client) applyCRD(ctx context.Context, crd *unstructured.Unstructured, rehearsal bool) (*unstructured.Unstructured, error) {
	// The plan shares the chart's object, so a copy is marked.
	marked := crd.DeepCopy()
	labels, annotations := marked.GetLabels(), marked.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[helmLabel] = helmManager
	annotations[helmRelease], annotations[helmNamespace] = c.place.Release, c.place.Namespace
	marked.SetLabels(labels)
	marked.SetAnnotations(annotations)
	text, err := json.Marshal(marked.Object)
	if err != nil {
		return nil, err
	}
	force := true
	options := metav1.PatchOptions{FieldManager: fieldManager, Force: &force}
	if rehearsal {
		options.DryRun = []string{metav1.DryRunAll}
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return c.crds().Patch(ctx, crd.GetName(), types.ApplyPatchType, text, options)
}

// writeCRDs applies the planned definitions and waits until they are served:
// objects of the chart need them.
func (c *Client) writeCRDs(ctx context.Context, plan *Plan) error {
	// All definitions are written before the first wait, so that the API server
	// establishes them in parallel.
	for _, crd := range plan.crds {
		if _, err := c.applyCRD(ctx, crd, false); err != nil {
			return fmt.Errorf("write the CustomResourceDefinition %s: %w", crd.GetName(), err)
		}
	}
	for _, crd := range plan.crds {
		if err := c.established(ctx, crd.GetName()); err != nil {
			return err
		}
	}
	// The cached discovery does not have the new kinds.
	if len(plan.crds) > 0 {
		c.mapper.Reset()
	}
	return nil
}

// established waits until a definition is served, at most establishTime. Names
// that are taken are an error at once: waiting would not help.
func (c *Client) established(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, establishTime, fmt.Errorf("the API server does not serve %s within %s", name, establishTime))
	defer cancel()
	// The interval is short, because most definitions are served at once.
	for {
		live, err := c.crds().Get(ctx, name, metav1.GetOptions{})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("read the CustomResourceDefinition %s: %w", name, err)
		}
		conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
		for _, one := range conditions {
			condition, _ := one.(map[string]any)
			if condition["type"] == "Established" && condition["status"] == "True" {
				return nil
			}
			if condition["type"] == "NamesAccepted" && condition["status"] == "False" {
				return errors.New("the API server refuses the names of " + name + ": another definition has them")
			}
		}
		if backoff.Sleep(ctx, 100*time.Millisecond) != nil {
			return context.Cause(ctx)
		}
	}
}
