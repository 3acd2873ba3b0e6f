package plan

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/refusal"
)

// PhaseName is a part of a sync, or of a deletion.
type PhaseName string

// The phases. All but Sync and Delete have only hooks, and namespaces and
// definitions that these need.
const (
	PreSync    PhaseName = "PreSync"
	Sync       PhaseName = "Sync"
	PostSync   PhaseName = "PostSync"
	SyncFail   PhaseName = "SyncFail"
	PreDelete  PhaseName = "PreDelete"
	Delete     PhaseName = "Delete"
	PostDelete PhaseName = "PostDelete"
)

// order is the place of a phase.
func (p PhaseName) order() int {
	return slices.Index([]PhaseName{PreSync, Sync, PostSync, SyncFail, PreDelete, Delete, PostDelete}, p)
}

// DeletePolicy is when the object of a hook is deleted.
type DeletePolicy string

// The policies, with Argo CD's names.
const (
	BeforeHookCreation DeletePolicy = "BeforeHookCreation"
	HookSucceeded      DeletePolicy = "HookSucceeded"
	HookFailed         DeletePolicy = "HookFailed"
	Never              DeletePolicy = "Never"
)

// Hook is what makes an object a hook.
type Hook struct {
	Phases   []PhaseName
	Policies []DeletePolicy
}

// Has reports whether the hook has a policy.
func (h *Hook) Has(policy DeletePolicy) bool { return slices.Contains(h.Policies, policy) }

// role is what an object is for.
type role struct {
	hook *Hook
	// skip is why the object is not applied at all.
	skip string
}

// roleOf reads the annotations that make a hook. Argo CD's go before Helm's.
func roleOf(object *unstructured.Unstructured) (role, *refusal.Refusal) {
	if _, ok := annotationOf(object, annotationHook); ok {
		return argoRole(object)
	}
	text, ok := annotationOf(object, annotationHelmHook)
	if !ok || strings.TrimSpace(text) == "crd-install" {
		return role{}, nil // Helm marked CRDs as hooks once
	}
	var phases []PhaseName
	for _, word := range words(object, annotationHelmHook) {
		phase, ok := helmPhase(word)
		if ok && !slices.Contains(phases, phase) {
			phases = append(phases, phase)
		}
	}
	if len(phases) == 0 {
		return role{skip: "the Helm hook " + shorten(text) + " has no equivalent"}, nil
	}
	return hookRole(object, phases)
}

func helmPhase(word string) (PhaseName, bool) {
	switch word {
	case "pre-install", "pre-upgrade":
		return PreSync, true
	case "post-install", "post-upgrade":
		return PostSync, true
	case "pre-delete":
		return PreDelete, true
	case "post-delete":
		return PostDelete, true
	}
	return "", false
}

func argoRole(object *unstructured.Unstructured) (role, *refusal.Refusal) {
	var phases []PhaseName
	skip := false
	for _, word := range words(object, annotationHook) {
		switch phase := PhaseName(word); phase {
		case PreSync, Sync, PostSync, SyncFail, PreDelete, PostDelete:
			if !slices.Contains(phases, phase) {
				phases = append(phases, phase)
			}
		case "Skip":
			skip = true
		default:
			return role{}, refusal.New(annotationField(annotationHook), refusal.Invalid, "%s is not one of PreSync, Sync, Skip, PostSync, SyncFail, PreDelete, PostDelete", quoted(word))
		}
	}
	switch {
	case len(phases) > 0:
		return hookRole(object, phases)
	case skip:
		return role{skip: "its hook annotation is Skip"}, nil
	}
	return role{}, refusal.New(annotationField(annotationHook), refusal.Invalid, "it names no hook")
}

// hookRole adds the policies. Argo CD's and Helm's count together.
func hookRole(object *unstructured.Unstructured, phases []PhaseName) (role, *refusal.Refusal) {
	hook := &Hook{Phases: phases}
	for _, word := range words(object, annotationDeletePolicy) {
		switch policy := DeletePolicy(word); policy {
		case BeforeHookCreation, HookSucceeded, HookFailed, Never:
			hook.Policies = append(hook.Policies, policy)
		default:
			return role{}, refusal.New(annotationField(annotationDeletePolicy), refusal.Invalid, "%s is not one of BeforeHookCreation, HookSucceeded, HookFailed, Never", quoted(word))
		}
	}
	for _, word := range words(object, annotationHelmPolicy) {
		switch word {
		case "before-hook-creation":
			hook.Policies = append(hook.Policies, BeforeHookCreation)
		case "hook-succeeded":
			hook.Policies = append(hook.Policies, HookSucceeded)
		case "hook-failed":
			hook.Policies = append(hook.Policies, HookFailed)
		}
	}
	if len(hook.Policies) == 0 {
		hook.Policies = []DeletePolicy{BeforeHookCreation}
	}
	return role{hook: hook}, nil
}

// isHook reports whether a live object is a hook of any phase. It is not pruned
// then: its delete policy decides.
func isHook(object *unstructured.Unstructured) bool {
	role, refused := roleOf(object)
	return refused == nil && role.hook != nil
}

// waveOf reads the wave of an object. Helm's weight counts if there is none.
func waveOf(object *unstructured.Unstructured) (int, *refusal.Refusal) {
	for _, annotation := range []string{annotationWave, annotationHelmWeight} {
		text, ok := annotationOf(object, annotation)
		if !ok {
			continue
		}
		wave, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || wave < math.MinInt32 || wave > math.MaxInt32 {
			return 0, refusal.New(annotationField(annotation), refusal.Invalid, "%s is not a whole number", quoted(text))
		}
		return wave, nil
	}
	return 0, nil
}

// liveWave is the wave of something that is deleted. One that cannot be read is
// no reason to keep it.
func liveWave(object *unstructured.Unstructured) int {
	wave, _ := waveOf(object)
	return wave
}

// maxName is the longest name of a Job that fits into the label of its Pods.
const maxName = 63

// hookName is the name of a hook that has only generateName. It is the same
// whenever the same operation is planned again, and another for each operation:
// the revision, the phase and the second at which the operation began, as in
// Argo CD. A prefix that is too long is cut.
func hookName(prefix, revision string, phase PhaseName, began time.Time) string {
	revision = strings.TrimPrefix(revision, "sha256:")
	if len(revision) > 7 {
		revision = revision[:7]
	}
	suffix := strings.ToLower(string(phase))
	if revision != "" {
		suffix = plainName(revision) + "-" + suffix
	}
	if !began.IsZero() {
		suffix += fmt.Sprintf("-%d", began.Unix())
	}
	if most := maxName - len(suffix); len(prefix) > most {
		prefix = strings.TrimRight(prefix[:max(most-1, 0)], "-.") + "-"
	}
	return prefix + suffix
}

// plainName makes a revision, which may be a version or a tag, part of a name.
func plainName(text string) string {
	return strings.Map(func(char rune) rune {
		switch {
		case char >= 'a' && char <= 'z', char >= '0' && char <= '9':
			return char
		case char >= 'A' && char <= 'Z':
			return char + 'a' - 'A'
		}
		return '-'
	}, text)
}
