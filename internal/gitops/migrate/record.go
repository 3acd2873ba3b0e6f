package migrate

import (
	"encoding/json"
	"fmt"

	"slipway.dev/slipway/internal/gitops/appset"
	"slipway.dev/slipway/internal/gitops/tracking"
)

const (
	// annotationHeld is on Argo CD's Application while it is held: the settings
	// to restore.
	annotationHeld = "slipway.dev/migration-held"
	// annotationOrigin is on ours: Argo CD's Application.
	annotationOrigin = appset.OriginAnnotation
	// annotationSkip makes Argo CD ignore an Application.
	annotationSkip = "argocd.argoproj.io/skip-reconcile"
)

// maxRecord bounds a record. All annotations of an object together may have 256
// KiB.
const maxRecord = 192 << 10

// heldSettings are the settings of an Application before it was held.
type heldSettings struct {
	Finalizers []string `json:"finalizers,omitempty"`
	// Automated is spec.syncPolicy.automated, and Policy is set if there was a
	// syncPolicy at all.
	Automated map[string]any `json:"automated,omitempty"`
	Policy    bool           `json:"policy,omitempty"`
	// Skip is the earlier value of annotationSkip; nil if it was not set.
	Skip *string `json:"skip,omitempty"`
}

// origin is Argo CD's Application, and how it marked its resources.
type origin struct {
	Namespace   string            `json:"namespace"`
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Finalizers  []string          `json:"finalizers,omitempty"`
	Spec        map[string]any    `json:"spec"`
	// Instance is its spelling in the tracking annotations; empty if it tracked
	// by label only.
	Instance string `json:"instance,omitempty"`
	// Objects are the resources that were marked.
	Objects []markedObject `json:"objects,omitempty"`
}

// markedObject is a resource that got our marks.
type markedObject struct {
	Group     string `json:"g,omitempty"`
	Version   string `json:"v,omitempty"`
	Kind      string `json:"k"`
	Namespace string `json:"ns,omitempty"`
	Name      string `json:"n"`
	// Bare means that it had no tracking annotation before.
	Bare bool `json:"bare,omitempty"`
}

// key returns the identity of the resource.
func (o markedObject) key() tracking.Key {
	return tracking.Key{Group: o.Group, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

// app returns the identity of Argo CD's Application.
func (o *origin) app() tracking.App { return tracking.App{Namespace: o.Namespace, Name: o.Name} }

// encode converts a record to the value of an annotation.
func encode(what any) (string, error) {
	text, err := json.Marshal(what)
	if err != nil {
		return "", err
	}
	if len(text) > maxRecord {
		return "", fmt.Errorf("what has to be kept for the way back has %d bytes, and an annotation may have %d: the Application has too many resources to be moved in one piece", len(text), maxRecord)
	}
	return string(text), nil
}

// readHeld reads the record of a held Application; nil if it is not held.
func readHeld(annotations map[string]string) (*heldSettings, error) {
	return readRecord[heldSettings](annotations, annotationHeld)
}

// readOrigin reads the origin of ours; nil if it was not moved.
func readOrigin(annotations map[string]string) (*origin, error) {
	read, err := readRecord[origin](annotations, annotationOrigin)
	if err == nil && read != nil && (read.Name == "" || read.Namespace == "" || read.Spec == nil) {
		return nil, fmt.Errorf("the annotation %s is not complete: another client changed it", annotationOrigin)
	}
	return read, err
}

// readRecord decodes the record in an annotation. Another client may have
// changed it.
func readRecord[T any](annotations map[string]string, name string) (*T, error) {
	text, there := annotations[name]
	if !there {
		return nil, nil
	}
	if len(text) > maxRecord {
		return nil, fmt.Errorf("the annotation %s has %d bytes: another client changed it", name, len(text))
	}
	read := new(T)
	if err := json.Unmarshal([]byte(text), read); err != nil {
		return nil, fmt.Errorf("the annotation %s cannot be read: another client changed it", name)
	}
	return read, nil
}
