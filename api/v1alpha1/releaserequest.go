package v1alpha1

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// AnnotationReleaseRequest is the annotation of a Release by which a person
// requests an action of the controller. The controller removes it when it has
// acted.
const AnnotationReleaseRequest = "release.slipway.dev/requested"

// ReleaseAction is what a person requests of a Release.
type ReleaseAction string

// The actions of a Release.
const (
	// ReleasePromote ends the current step: its hold, its guards or its pause.
	ReleasePromote ReleaseAction = "promote"
	// ReleasePromoteFull skips all remaining steps and guards.
	ReleasePromoteFull ReleaseAction = "promote-full"
	// ReleaseAbort takes all requests back to the stable revision.
	ReleaseAbort ReleaseAction = "abort"
	// ReleasePause stays at the current step until it is resumed.
	ReleasePause ReleaseAction = "pause"
	// ReleaseResume ends a pause.
	ReleaseResume ReleaseAction = "resume"
	// ReleaseRetry starts a revision again that was rolled back and is held.
	ReleaseRetry ReleaseAction = "retry"
)

// ReleaseActions returns all actions.
func ReleaseActions() []ReleaseAction {
	return []ReleaseAction{ReleasePromote, ReleasePromoteFull, ReleaseAbort, ReleasePause, ReleaseResume, ReleaseRetry}
}

// FormatReleaseRequest returns the value of AnnotationReleaseRequest: the action
// and the time of the request, which distinguishes it from an earlier one.
func FormatReleaseRequest(action ReleaseAction, at time.Time) string {
	return string(action) + "/" + at.UTC().Format(time.RFC3339Nano)
}

// ParseReleaseRequest takes a value of AnnotationReleaseRequest apart. The id is
// the text after the slash; a value without one has an empty id, so that a person
// can write the annotation with kubectl.
func ParseReleaseRequest(value string) (action ReleaseAction, id string, err error) {
	word, id, _ := strings.Cut(value, "/")
	action = ReleaseAction(word)
	if !slices.Contains(ReleaseActions(), action) {
		return "", "", fmt.Errorf("%q is no action of a Release: use one of %s", word, actionNames())
	}
	return action, id, nil
}

func actionNames() string {
	var names []string
	for _, action := range ReleaseActions() {
		names = append(names, string(action))
	}
	return strings.Join(names, ", ")
}
