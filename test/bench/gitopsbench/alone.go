package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/test/bench/ground"
)

// installWrites are the writes of the agent in the phase install beside those of
// the objects: their number, and the status of one Application as a model of all.
type installWrites struct {
	statuses, events int
	model            string // JSON, of the Application with the number 0
}

// measureAlone makes the writes of an installation in a new cluster without an
// agent, by a client that does nothing else. What an installation takes beyond that
// is the agent's; what it takes for that is the API server's.
func measureAlone(ctx context.Context, s *settings, f *figures, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", name+"-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cluster, err := ground.StartCluster(ctx, s.Devcluster, dir, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	w, err := newWorld(ctx, cluster, &repository{}, directory, f.Applications)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := w.writeAll(ctx, f.writes); err != nil {
		return err
	}
	f.Alone = time.Since(began).Seconds()
	fmt.Fprintf(out, "  API server alone: the writes of install take %.1f s; install takes %.2f times as long\n", f.Alone, f.ratio())
	return nil
}

// writeAll applies the objects of all Applications and writes their statuses and
// Events, as many Applications at a time as the agent has workers.
func (w *world) writeAll(ctx context.Context, writes installWrites) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for app := range w.apps {
		group.Go(func() error {
			if err := w.applyObjects(ctx, app); err != nil {
				return err
			}
			// Some Applications have one more than the others.
			for n := app; n < writes.statuses; n += w.apps {
				if err := w.writeStatus(ctx, app, fmt.Sprint(n), writes.model); err != nil {
					return err
				}
			}
			for n := app; n < writes.events; n += w.apps {
				if err := w.writeEvent(ctx, app); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// applyObjects applies the objects of an Application, each after the one before,
// with the label and the annotation that the agent adds.
func (w *world) applyObjects(ctx context.Context, app int) error {
	resources := map[string]schema.GroupVersionResource{
		"ServiceAccount": {Version: "v1", Resource: "serviceaccounts"},
		"Service":        {Version: "v1", Resource: "services"},
		"Deployment":     {Group: "apps", Version: "v1", Resource: "deployments"},
		"Ingress":        {Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	}
	for text := range strings.SplitSeq(write(nameOf(app), "v1"), "---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			return err
		}
		labels := object.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["slipway.dev/app"] = nameOf(app)
		object.SetLabels(labels)
		object.SetAnnotations(map[string]string{
			"argocd.argoproj.io/tracking-id": fmt.Sprintf("%s:%s:%s/%s", nameOf(app), object.GetKind(), namespaceOf(app), object.GetName()),
		})
		body, err := json.Marshal(object.Object)
		if err != nil {
			return err
		}
		force := true
		_, err = w.Dynamic.Resource(resources[object.GetKind()]).Namespace(namespaceOf(app)).
			Patch(ctx, object.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: name, Force: &force, FieldValidation: metav1.FieldValidationStrict})
		if err != nil {
			return err
		}
	}
	return nil
}

// writeStatus writes a status of an Application, made after the model. The message
// makes it another one.
func (w *world) writeStatus(ctx context.Context, app int, message, model string) error {
	var status map[string]any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(model, nameOf(0), nameOf(app))), &status); err != nil {
		return err
	}
	if err := unstructured.SetNestedField(status, message, "operationState", "message"); err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = w.Dynamic.Resource(applications()).Namespace(controlNamespace).
		Patch(ctx, nameOf(app), types.MergePatchType, body, metav1.PatchOptions{FieldManager: name}, "status")
	return err
}

// writeEvent writes an Event about an Application.
func (w *world) writeEvent(ctx context.Context, app int) error {
	return w.Announce(ctx, kube.Reporter{Controller: "example.com/" + name, Instance: name}, kube.Notice{
		Regarding: corev1.ObjectReference{APIVersion: "argoproj.io/v1alpha1", Kind: "Application", Namespace: controlNamespace, Name: nameOf(app)},
		Reason:    "OperationCompleted", Action: "Reconcile", Note: "sync succeeded: 4 created", Times: 1,
	})
}

// modelStatus returns the status of the first Application, as JSON.
func (w *world) modelStatus(ctx context.Context) (string, error) {
	app, err := w.Dynamic.Resource(applications()).Namespace(controlNamespace).Get(ctx, nameOf(0), metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(app.Object["status"])
	return string(text), err
}
