package crds

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// annotationRecord has the marks of before the adoption. It is on the
// definition itself, so that an undo needs no file.
const annotationRecord = "slipway.dev/adopted-from"

// record has the marks of before: nil is a mark that was absent.
type record struct {
	Manager   *string `json:"managedBy"`
	Release   *string `json:"releaseName"`
	Namespace *string `json:"releaseNamespace"`
	// For is the release of the adoption.
	For Place `json:"for"`
}

// planAdoption decides what adopting would do to a definition.
func (e *Entry) planAdoption(options Options) error {
	switch {
	case e.Owner.is(options.Release):
		e.Action, e.Why = Keep, "it belongs to the release already"
		return nil
	case !e.Owner.free() && !options.Force:
		e.Action = Refuse
		e.Why = fmt.Sprintf("it is managed by %s: leave it there, or take it with --force", e.Owner)
		return nil
	case e.Owner.Kind != Unowned && e.Owner.Kind != Helm:
		e.Why = fmt.Sprintf("taken from %s, which may write its own marks again", e.Owner)
	case e.Owner.Kind == Helm:
		e.Why = fmt.Sprintf("taken from %s", e.Owner)
	default:
		e.Why = "it has no owner"
	}
	e.Action = Adopt
	patch, err := e.adoption(options.Release)
	e.Patch = patch
	return err
}

// adoption returns the patch that marks a definition. An existing record is
// kept: it has the marks of before the first adoption.
func (e *Entry) adoption(release Place) ([]byte, error) {
	before := record{
		Manager: value(e.live.Labels, labelManager), Release: value(e.live.Annotations, annotationRelease),
		Namespace: value(e.live.Annotations, annotationNamespace), For: release,
	}
	// Without a record, or with one that cannot be read, the marks of now are
	// recorded.
	if earlier, err := readRecord(e.live.Annotations[annotationRecord]); err == nil {
		before = earlier
		before.For = release
	}
	text, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	return e.patch(
		map[string]any{labelManager: managerHelm},
		map[string]any{annotationRelease: release.Name, annotationNamespace: release.Namespace, annotationRecord: string(text)},
	)
}

// AdoptionOf returns the patch that adopts a definition as it was read, with
// the record that undoes it.
func AdoptionOf(live *metav1.PartialObjectMetadata, release Place) ([]byte, error) {
	entry := Entry{live: live}
	return entry.adoption(release)
}

// patch returns a merge patch of labels and annotations for exactly the version
// that was read: the API server responds with a conflict if the definition has
// changed since.
func (e *Entry) patch(labels, annotations map[string]any) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": e.live.ResourceVersion, "labels": labels, "annotations": annotations,
	}})
}

// value returns a pointer to a map's value, nil if it is absent.
func value(from map[string]string, key string) *string {
	if text, there := from[key]; there {
		return &text
	}
	return nil
}

// maxRecord bounds a record: the annotation may have been written by anyone.
const maxRecord = 4096

// readRecord decodes a record.
func readRecord(text string) (record, error) {
	var read record
	if len(text) > maxRecord {
		return read, fmt.Errorf("the annotation %s has %d bytes", annotationRecord, len(text))
	}
	if err := json.Unmarshal([]byte(text), &read); err != nil {
		return record{}, fmt.Errorf("the annotation %s cannot be read", annotationRecord)
	}
	return read, nil
}
