package v1alpha1

import (
	"fmt"
	"strings"
)

// Warning names a part of an object that is accepted and has no effect. Argo CD
// takes such an object and ignores the part, so refusing it would stop an
// Application that runs today; ignoring it silently would hide that a setting is
// not carried out. A Warning therefore belongs in a condition of the object, and
// the object is acted upon.
type Warning struct {
	// Field is its place, such as spec.orphanedResources or
	// spec.syncPolicy.syncOptions[1].
	Field string
	// Message explains why it has no effect and what to do.
	Message string
}

// String is place and message on one line.
func (w Warning) String() string { return w.Field + ": " + w.Message }

// WarningSummary joins warnings into one text for a condition.
func WarningSummary(warnings []Warning) string {
	lines := make([]string, 0, len(warnings))
	for _, w := range warnings {
		lines = append(lines, w.String())
	}
	return strings.Join(lines, "; ")
}

// maxWarnings bounds the warnings of one object, and with them the memory and the
// size of its status.
const maxWarnings = 20

// warn records a part that has no effect. Beyond maxWarnings parts are counted
// only.
func (d *decoder) warn(place, format string, args ...any) {
	if len(d.warnings) >= maxWarnings {
		d.moreWarnings++
		return
	}
	d.warnings = append(d.warnings, Warning{Field: place, Message: fmt.Sprintf(format, args...)})
}

// warned returns the recorded warnings. The last one counts those that are not
// listed.
func (d *decoder) warned() []Warning {
	if d.moreWarnings == 0 {
		return d.warnings
	}
	return append(d.warnings, Warning{Field: "spec", Message: fmt.Sprintf("%d more fields have no effect and are not listed", d.moreWarnings)})
}
