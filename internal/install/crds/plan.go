package crds

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"slipway.dev/slipway/internal/kube"
)

// manager is the field manager of this package.
const manager = "slipway-crds"

// Options select the definitions and the release.
type Options struct {
	Cluster *kube.Cluster
	// Release is the Helm release of the runtime.
	Release Place
	// Only are the families; nil means those of the chart.
	Only []Family
	// Force takes a definition from another owner, and releases one that
	// changed.
	Force bool
}

// families returns the selected families, without a selection those of the
// chart.
func (o Options) families() []Family {
	if len(o.Only) == 0 {
		return []Family{ArgoCD, Slipway, Promotions}
	}
	return o.Only
}

// Action is what is done to a definition.
type Action string

// The actions.
const (
	// Keep leaves it as it is.
	Keep Action = "keep"
	// Adopt marks it as the release's.
	Adopt Action = "adopt"
	// GiveBack takes the marks away again.
	GiveBack Action = "release"
	// Refuse leaves it as it is, because another owner has it.
	Refuse Action = "refuse"
	// Absent is a definition that is not in the cluster.
	Absent Action = "absent"
)

// Entry is one definition with the planned action.
type Entry struct {
	Name   string `json:"name"`
	Family Family `json:"family"`
	// Found is set if it is in the cluster, and Brought if the chart has it.
	Found   bool   `json:"found"`
	Brought bool   `json:"brought"`
	Owner   *Owner `json:"owner,omitempty"`
	// Adopted is set if there is a record of before.
	Adopted bool `json:"adopted"`
	// Differs is set if it is not the chart's version.
	Differs bool `json:"differs"`
	// Action is what the command does, Why the reason, and Patch the exact
	// write.
	Action Action          `json:"action"`
	Why    string          `json:"why"`
	Patch  json.RawMessage `json:"patch,omitempty"`

	live *metav1.PartialObjectMetadata
	// replaceable is set if an upgrade may replace it.
	replaceable bool
}

// Plan reads the definitions, and plans an adoption of each. Nothing is
// changed.
func Plan(ctx context.Context, options Options) ([]Entry, error) {
	return survey(ctx, options, func(entry *Entry) error { return entry.planAdoption(options) })
}

// PlanRelease plans a release of each definition.
func PlanRelease(ctx context.Context, options Options) ([]Entry, error) {
	return survey(ctx, options, func(entry *Entry) error { return entry.planRelease(options) })
}

// survey reads each definition, and lets decide choose the action.
func survey(ctx context.Context, options Options, decide func(*Entry) error) ([]Entry, error) {
	all, err := definitions(options.families())
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, each := range all {
		entry, err := look(ctx, options, each)
		if err != nil {
			return nil, err
		}
		if entry.Found {
			err = decide(&entry)
		} else {
			entry.Action, entry.Why = Absent, "it is not in the cluster"
			switch {
			case entry.Brought && (entry.Family == GatewayAPI || entry.Family == Rollouts):
				entry.Why += ": slipway crds upgrade --only " + string(entry.Family) + " makes it"
			case entry.Brought:
				entry.Why += ": the chart makes it"
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", each.name, err)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// look reads one definition. The whole object is read only if the chart has it
// too.
func look(ctx context.Context, options Options, of definition) (Entry, error) {
	cluster := options.Cluster
	entry := Entry{Name: of.name, Family: of.family, Brought: of.text != nil}
	live, err := cluster.Metadata.Resource(kube.DefinitionResource()).Get(ctx, of.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return entry, nil
	}
	if err != nil {
		return entry, fmt.Errorf("look at the definition %s: %w", of.name, err)
	}
	owner := ownerOf(live).withoutApplication(ctx, cluster, live, options.Release)
	owner.look(ctx, cluster)
	_, adopted := live.Annotations[annotationRecord]
	entry.Found, entry.Owner, entry.Adopted, entry.live = true, &owner, adopted, live
	entry.replaceable = of.replaces(live.Annotations)
	if entry.Brought {
		// The API server still writes the status of a definition that is new.
		err = retry.RetryOnConflict(retry.DefaultBackoff, func() (err error) {
			entry.Differs, err = differs(ctx, cluster, of)
			return err
		})
	}
	return entry, err
}

// differs reports whether applying the chart's definition would change the
// cluster's. The API server computes it in a dry run, because it adds defaults
// and texts cannot be compared.
func differs(ctx context.Context, cluster *kube.Cluster, of definition) (bool, error) {
	definitions := cluster.Dynamic.Resource(kube.DefinitionResource())
	before, err := definitions.Get(ctx, of.name, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("read the definition %s: %w", of.name, err)
	}
	after := before.DeepCopy()
	wanted, err := of.object()
	if err != nil {
		return false, err
	}
	// Only the spec is replaced: metadata and status are no difference.
	keepSubresources(wanted, before)
	after.Object["spec"] = wanted.Object["spec"]
	// The conversion of the cluster is kept. A webhook in it is configured
	// where the definition is used, and is no difference either.
	if conversion, found, _ := unstructured.NestedMap(before.Object, "spec", "conversion"); found {
		_ = unstructured.SetNestedMap(after.Object, conversion, "spec", "conversion") // the spec is a map
	}
	predicted, err := definitions.Update(ctx, after, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: manager})
	// A user who may only read gets a comparison of the texts, without
	// defaults, and so does a spec that the API server refuses.
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return !equality.Semantic.DeepDerivative(wanted.Object["spec"], before.Object["spec"]), nil
	}
	if err != nil {
		return false, fmt.Errorf("compare the definition %s: %w", of.name, err)
	}
	return !equality.Semantic.DeepEqual(before.Object["spec"], predicted.Object["spec"]), nil
}

// keepSubresources gives a definition the subresources of the one in the cluster.
// Argo CD's Applications have no status subresource, and with one its controller,
// which may still run, could not write their status any more: the API server would
// ignore that without an error.
func keepSubresources(wanted, live *unstructured.Unstructured) {
	kept := map[string]any{}
	for _, version := range versionsOf(live) {
		kept[fmt.Sprint(version["name"])] = version["subresources"]
	}
	for _, version := range versionsOf(wanted) {
		subresources, found := kept[fmt.Sprint(version["name"])]
		switch {
		case !found: // a version that the cluster does not have
		case subresources == nil:
			delete(version, "subresources")
		default:
			version["subresources"] = subresources
		}
	}
}

// versionsOf returns the versions of a definition, which can be changed.
func versionsOf(definition *unstructured.Unstructured) []map[string]any {
	spec, _ := definition.Object["spec"].(map[string]any)
	list, _ := spec["versions"].([]any)
	var versions []map[string]any
	for _, one := range list {
		if version, isMap := one.(map[string]any); isMap {
			versions = append(versions, version)
		}
	}
	return versions
}

// Apply adopts or releases the definitions as planned, one after the other, and
// calls done for each. It stops at the first error: those before it are done. A
// refused definition is an error before anything is written.
func Apply(ctx context.Context, options Options, entries []Entry, done func(Entry)) error {
	for _, entry := range entries {
		if entry.Action == Refuse {
			return fmt.Errorf("%s: %s; nothing was changed", entry.Name, entry.Why)
		}
	}
	for _, entry := range entries {
		if entry.Action != Adopt && entry.Action != GiveBack {
			continue
		}
		if err := entry.write(ctx, options.Cluster); err != nil {
			return err
		}
		if done != nil {
			done(entry)
		}
	}
	return nil
}

// writeTries bounds the attempts when the object changed in between.
const writeTries = 5

// write merges the patch into the version that was read. The API server updates
// the status of a definition at any time, so a newer version with the same
// marks is accepted.
func (e *Entry) write(ctx context.Context, cluster *kube.Cluster) error {
	definitions := cluster.Metadata.Resource(kube.DefinitionResource())
	version := e.live.ResourceVersion
	for try := 1; ; try++ {
		patch, err := forVersion(e.Patch, version)
		if err != nil {
			return err
		}
		_, err = definitions.Patch(ctx, e.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
		if err == nil {
			return nil
		}
		if !apierrors.IsConflict(err) {
			return fmt.Errorf("%s %s: %w", e.Action, e.Name, err)
		}
		now, err := definitions.Get(ctx, e.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("look at the definition %s again: %w", e.Name, err)
		}
		// Updates of the status leave labels and annotations alone. A change
		// there is the write of another owner.
		same := now.UID == e.live.UID && maps.Equal(now.Labels, e.live.Labels) && maps.Equal(now.Annotations, e.live.Annotations)
		if !same || try == writeTries {
			return fmt.Errorf("%s changed since it was looked at: run the command again", e.Name)
		}
		version = now.ResourceVersion
	}
}

// forVersion returns the patch for another resource version.
func forVersion(patch []byte, version string) ([]byte, error) {
	content := map[string]any{}
	if err := json.Unmarshal(patch, &content); err != nil {
		return nil, err
	}
	if err := unstructured.SetNestedField(content, version, "metadata", "resourceVersion"); err != nil {
		return nil, err
	}
	return json.Marshal(content)
}
