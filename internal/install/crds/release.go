package crds

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"slipway.dev/slipway/internal/kube"
)

// planRelease decides what releasing would do to a definition.
func (e *Entry) planRelease(options Options) error {
	text, adopted := e.live.Annotations[annotationRecord]
	ours := e.Owner.is(options.Release)
	switch {
	case !adopted && !ours:
		e.Action, e.Why = Keep, fmt.Sprintf("it is managed by %s, and was not adopted", e.Owner)
		return nil
	case !adopted:
		// An older adoption, or one by hand (R22), has left no record.
		e.Action, e.Why = GiveBack, "there is no record of what was before: the marks are taken away"
		return e.giveBack(record{})
	}
	before, err := readRecord(text)
	switch {
	case err != nil && !options.Force:
		e.Action, e.Why = Refuse, fmt.Sprintf("%v: take the marks away with --force", err)
		return nil
	case err == nil && before.For != options.Release && !options.Force:
		e.Action, e.Why = Keep, fmt.Sprintf("it was adopted for the release %s", before.For)
		return nil
	case e.changed(before.For) && !options.Force:
		e.Action, e.Why = Refuse, fmt.Sprintf("it was adopted, and is managed by %s by now: leave it there, or give it back with --force", e.Owner)
		return nil
	}
	e.Action, e.Why = GiveBack, "the marks become what they were"
	return e.giveBack(before)
}

// changed reports whether the definition was marked again after its adoption.
func (e *Entry) changed(release Place) bool {
	return e.live.Labels[labelManager] != managerHelm ||
		e.live.Annotations[annotationRelease] != release.Name || e.live.Annotations[annotationNamespace] != release.Namespace
}

// giveBack sets the patch that restores the marks of the record.
func (e *Entry) giveBack(before record) error {
	// A null removes a key in a merge patch (RFC 7386).
	text := func(of *string) any {
		if of == nil {
			return nil
		}
		return *of
	}
	patch, err := e.patch(
		map[string]any{labelManager: text(before.Manager)},
		map[string]any{annotationRelease: text(before.Release), annotationNamespace: text(before.Namespace), annotationRecord: nil},
	)
	e.Patch = patch
	return err
}

// Upgrade applies the chart's definitions where they are missing or belong to
// the release (R24), and calls done for each that changed. Created ones belong
// to the release. Those of other owners stay as they are, and so do newer ones of
// Gateway API.
func Upgrade(ctx context.Context, options Options, done func(name string)) error {
	entries, err := Plan(ctx, options)
	if err != nil {
		return err
	}
	all, err := definitions(options.families())
	if err != nil {
		return err
	}
	// Plan returns one entry for each definition, in the same order, so that
	// both have the same index.
	for i, entry := range entries {
		wanted := entry.Brought && (!entry.Found || entry.Differs && entry.replaceable && entry.Owner.is(options.Release))
		if !wanted {
			continue
		}
		object, err := all[i].object()
		if err != nil {
			return err
		}
		if entry.Found {
			live, err := options.Cluster.Dynamic.Resource(kube.DefinitionResource()).Get(ctx, entry.Name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("read the definition %s: %w", entry.Name, err)
			}
			keepSubresources(object, live)
		}
		object.SetLabels(labels.Merge(object.GetLabels(), labels.Set{labelManager: managerHelm}))
		object.SetAnnotations(labels.Merge(object.GetAnnotations(), labels.Set{annotationRelease: options.Release.Name, annotationNamespace: options.Release.Namespace}))
		// Force takes the fields over from other managers: the definition
		// belongs to the release.
		apply := metav1.ApplyOptions{FieldManager: manager, Force: true}
		if _, err := options.Cluster.Dynamic.Resource(kube.DefinitionResource()).Apply(ctx, entry.Name, object, apply); err != nil {
			return fmt.Errorf("upgrade the definition %s: %w", entry.Name, err)
		}
		if done != nil {
			done(entry.Name)
		}
	}
	return nil
}
