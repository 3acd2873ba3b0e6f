package rollout

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// roleMetadata returns the metadata of Pods of the new and of the stable ReplicaSet;
// nil for none.
func roleMetadata(spec *v1alpha1.RolloutSpec) (forNew, forStable *v1alpha1.PodTemplateMetadata) {
	if strategy := spec.Strategy.BlueGreen; strategy != nil {
		return strategy.PreviewMetadata, strategy.ActiveMetadata
	}
	if strategy := spec.Strategy.Canary; strategy != nil {
		return strategy.CanaryMetadata, strategy.StableMetadata
	}
	return nil, nil
}

// metadataOfNew is the metadata of a ReplicaSet that is created: without a stable one
// it becomes that.
func (p *pass) metadataOfNew() *v1alpha1.PodTemplateMetadata {
	forNew, forStable := roleMetadata(p.spec)
	if p.stableSet == nil {
		return forStable
	}
	return forNew
}

// injectMetadata sets metadata of a role in a template that has none yet.
func injectMetadata(set *appsv1.ReplicaSet, metadata *v1alpha1.PodTemplateMetadata) {
	if metadata == nil {
		return
	}
	template := &set.Spec.Template.ObjectMeta
	changed := apply(&template.Labels, nil, metadata.Labels)
	if more := apply(&template.Annotations, nil, metadata.Annotations); len(changed)+len(more) > 0 {
		set.Annotations[annotationEphemeral] = encodeMetadata(metadata)
	}
}

// encodeMetadata is the value of the annotation that records injected metadata.
func encodeMetadata(metadata *v1alpha1.PodTemplateMetadata) string {
	text, _ := json.Marshal(metadata) // maps of text always have a JSON form
	return string(text)
}

// syncMetadata gives ReplicaSets and their Pods the metadata of their roles, and takes
// it away from others.
func (p *pass) syncMetadata() {
	forNew, forStable := roleMetadata(p.spec)
	if forNew == nil && forStable == nil {
		return
	}
	if p.old.StableRS == "" || p.old.StableRS == hashOf(p.newSet) {
		p.giveMetadata(p.newSet, forStable)
	} else {
		p.giveMetadata(p.newSet, forNew)
		p.giveMetadata(p.stableSet, forStable)
	}
	for _, set := range p.others {
		p.giveMetadata(set, nil)
	}
}

// giveMetadata gives a ReplicaSet and its Pods metadata. The ReplicaSet is first, so
// that Pods which it makes in between have it.
func (p *pass) giveMetadata(set *appsv1.ReplicaSet, wanted *v1alpha1.PodTemplateMetadata) {
	if set == nil {
		return
	}
	had, want := v1alpha1.PodTemplateMetadata{}, v1alpha1.PodTemplateMetadata{}
	if err := json.Unmarshal([]byte(set.Annotations[annotationEphemeral]), &had); err != nil {
		had = v1alpha1.PodTemplateMetadata{} // none was injected
	}
	var record any
	if wanted != nil {
		want, record = *wanted, encodeMetadata(wanted)
	}
	template := &set.Spec.Template.ObjectMeta
	if changes := metadataChanges(template, had, want); changes != nil {
		p.patchReplicaSet(set, map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{annotationEphemeral: record}},
			"spec":     map[string]any{"template": map[string]any{"metadata": changes}},
		})
		if wanted != nil {
			p.annotate(set, annotationEphemeral, encodeMetadata(wanted))
		} else {
			delete(set.Annotations, annotationEphemeral)
		}
	}
	for _, pod := range p.seen.Pods {
		if !metav1.IsControlledBy(pod, set) {
			continue
		}
		if changes := metadataChanges(&pod.ObjectMeta, had, want); changes != nil {
			p.write(Write{Resource: pods, Name: pod.Name, Patch: map[string]any{"metadata": changes}})
		}
	}
}

// metadataChanges changes metadata from one role to another, and returns the patch;
// nil if nothing changes.
func metadataChanges(object *metav1.ObjectMeta, had, want v1alpha1.PodTemplateMetadata) map[string]any {
	changes := map[string]any{}
	if labels := apply(&object.Labels, had.Labels, want.Labels); len(labels) > 0 {
		changes["labels"] = labels
	}
	if annotations := apply(&object.Annotations, had.Annotations, want.Annotations); len(annotations) > 0 {
		changes["annotations"] = annotations
	}
	if len(changes) == 0 {
		return nil
	}
	return changes
}

// apply sets what is wanted and removes what was injected and no longer is, and
// returns what changed, with nil for what was removed.
func apply(into *map[string]string, had, want map[string]string) map[string]any {
	changes := map[string]any{}
	for name, value := range want {
		if is, ok := (*into)[name]; !ok || is != value {
			if *into == nil {
				*into = map[string]string{}
			}
			(*into)[name] = value
			changes[name] = value
		}
	}
	for name := range had {
		_, wanted := want[name]
		if _, is := (*into)[name]; is && !wanted {
			delete(*into, name)
			changes[name] = nil
		}
	}
	return changes
}
