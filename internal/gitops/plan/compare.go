package plan

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/gitops/tracking"
)

// SyncState is how a live object is, compared with the desired one.
type SyncState string

// The states. Argo CD calls all but Synced OutOfSync.
const (
	Synced    SyncState = "Synced"
	OutOfSync SyncState = "OutOfSync"
	// Absent: it is desired, and not there.
	Absent SyncState = "Missing"
	// Extra: it is there, and no longer desired.
	Extra SyncState = "Extra"
	// UnknownSync: whether it is desired cannot be decided, because a rendered
	// object is refused.
	UnknownSync SyncState = "Unknown"
)

// Predict gives what a live object would be after the desired one is applied:
// the apply engine's dry run. What it returns may be changed, unless it is the live
// object itself, which stands for no change.
type Predict func(desired, live *unstructured.Unstructured) (*unstructured.Unstructured, error)

// Compare compares one object. Either may be nil, but not both. Neither is
// changed.
func Compare(desired, live *unstructured.Unstructured, ignore *Ignore, predict Predict) (SyncState, error) {
	switch {
	case live == nil:
		return Absent, nil
	case desired == nil:
		return Extra, nil
	}
	after, err := predict(desired, live)
	if err != nil {
		return OutOfSync, fmt.Errorf("%s cannot be compared: %w", tracking.KeyOf(desired), err)
	}
	if after == live {
		return Synced, nil
	}
	before := live.DeepCopy()
	ignore.Equalize(before, after)
	for _, object := range []*unstructured.Unstructured{before, after} {
		// Every write changes these.
		for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
			unstructured.RemoveNestedField(object.Object, "metadata", field)
		}
	}
	if !equality.Semantic.DeepEqual(before.Object, after.Object) {
		return OutOfSync, nil
	}
	return Synced, nil
}

// Status is the state of one resource of an Application.
type Status struct {
	Key   tracking.Key
	State SyncState
	// Prune: syncing it means deleting it.
	Prune bool
	// Hidden: it does not count for the state of the Application.
	Hidden bool
	// Unlabelled: it is the Application's by its annotation, and does not have the
	// label yet that watches are filtered by.
	Unlabelled bool
	// Problem is why it could not be compared.
	Problem error
}

// Comparison is what CompareAll needs.
type Comparison struct {
	Set     *Set
	Live    map[tracking.Key]*unstructured.Unstructured
	Ignore  *Ignore
	Predict Predict
	// LabelOptional: an object of the Application that lacks only our label is
	// Synced. It is set where no sync would add the label by itself: after a
	// take-over from Argo CD everything would be OutOfSync otherwise, and a real
	// difference could not be seen.
	LabelOptional bool
}

// CompareAll compares the resources of an Application and returns the sync
// state of all together. Hooks do not count. A live object that is no longer
// desired counts unless its compare-options have IgnoreExtraneous. An object
// that cannot be compared is OutOfSync, so that a sync is tried and reports
// why.
//
// While a rendered object is refused the result is UnknownSync for any state of
// the others: it could be any object, so neither is the Application as desired,
// nor is a live object one that left Git.
func CompareAll(in Comparison) ([]Status, SyncState) {
	var all []Status
	wanted := map[tracking.Key]bool{}
	for _, desired := range in.Set.Objects {
		wanted[desired.Key] = true
	}
	for _, desired := range in.Set.Resources() {
		live := in.Live[desired.Key]
		status := Status{Key: desired.Key, Unlabelled: in.Set.isUnlabelled(live)}
		want := desired.Object
		if status.Unlabelled && in.LabelOptional {
			want = withoutLabel(want)
		}
		status.State, status.Problem = Compare(want, live, in.Ignore, in.Predict)
		all = append(all, status)
	}
	b := &builder{set: in.Set}
	for _, key := range slices.SortedFunc(maps.Keys(in.Live), tracking.Key.Compare) {
		live := in.Live[key]
		if live == nil || wanted[key] || !b.isOwn(key, live) || isHook(live) || key == b.applicationKey() {
			continue
		}
		extra := Status{Key: key, State: Extra, Prune: true, Hidden: hasWord(live, annotationCompare, "IgnoreExtraneous")}
		if len(in.Set.Refusals) > 0 {
			extra.State, extra.Prune = UnknownSync, false
		}
		all = append(all, extra)
	}
	overall := Synced
	if len(in.Set.Refusals) > 0 {
		return all, UnknownSync
	}
	for _, status := range all {
		if status.State != Synced && !status.Hidden {
			overall = OutOfSync
		}
	}
	return all, overall
}

// isUnlabelled reports whether a live object is the Application's and lacks the
// label, as one that Argo CD applied.
func (s *Set) isUnlabelled(live *unstructured.Unstructured) bool {
	if live == nil {
		return false
	}
	owner, owned := s.source.Tracker.OwnerOf(live)
	_, labelled := live.GetLabels()[tracking.Label]
	return owned && owner == s.source.App && !labelled
}

// withoutLabel is a copy of an object without our label.
func withoutLabel(object *unstructured.Unstructured) *unstructured.Unstructured {
	copied := object.DeepCopy()
	labels := copied.GetLabels()
	delete(labels, tracking.Label)
	if len(labels) == 0 {
		unstructured.RemoveNestedField(copied.Object, "metadata", "labels")
	} else {
		copied.SetLabels(labels)
	}
	return copied
}
