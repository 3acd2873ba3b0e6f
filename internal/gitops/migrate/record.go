package migrate

import (
	"encoding/json"
	"fmt"

	"slipway.dev/slipway/internal/gitops/tracking"
)

const (
	// annotationHeld is on Argo CD's Application while it is held: what to put back.
	annotationHeld = "slipway.dev/migration-held"
	// annotationOrigin is on ours: what Argo CD's was.
	annotationOrigin = "slipway.dev/migrated-from"
	// annotationSkip has Argo CD leave an Application alone.
	annotationSkip = "argocd.argoproj.io/skip-reconcile"
)

// maxRecord bounds a record. All annotations of an object together have 256 KiB.
const maxRecord = 192 << 10

// held is what an Application had before it was held.
type held struct {
	Finalizers []string `json:"finalizers,omitempty"`
	// Automated is spec.syncPolicy.automated, and Policy says that there was a
	// syncPolicy at all.
	Automated map[string]any `json:"automated,omitempty"`
	Policy    bool           `json:"policy,omitempty"`
	// Skip is what annotationSkip was; nil if it was not there.
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
	// Instance is how the tracking annotations spelt it; empty if it tracked by a
	// label alone.
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
	// Bare had no tracking annotation before.
	Bare bool `json:"bare,omitempty"`
}

func (o markedObject) key() tracking.Key {
	return tracking.Key{Group: o.Group, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

// app is where Argo CD's Application was.
func (o *origin) app() tracking.App { return tracking.App{Namespace: o.Namespace, Name: o.Name} }

// encode makes a record the value of an annotation.
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

// readHeld reads the record of an Application that is held; nil if it is not.
func readHeld(annotations map[string]string) (*held, error) {
	return readRecord[held](annotations, annotationHeld)
}

// readOrigin reads where ours is from; nil if it was not moved.
func readOrigin(annotations map[string]string) (*origin, error) {
	read, err := readRecord[origin](annotations, annotationOrigin)
	if err == nil && read != nil && (read.Name == "" || read.Namespace == "" || read.Spec == nil) {
		return nil, fmt.Errorf("the annotation %s is not complete: it was changed by somebody", annotationOrigin)
	}
	return read, err
}

func readRecord[T any](annotations map[string]string, name string) (*T, error) {
	text, there := annotations[name]
	if !there {
		return nil, nil
	}
	if len(text) > maxRecord {
		return nil, fmt.Errorf("the annotation %s has %d bytes: it was changed by somebody", name, len(text))
	}
	read := new(T)
	if err := json.Unmarshal([]byte(text), read); err != nil {
		return nil, fmt.Errorf("the annotation %s cannot be read: it was changed by somebody", name)
	}
	return read, nil
}
