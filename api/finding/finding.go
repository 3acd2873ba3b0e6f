// Package finding has the one type for what a check reports: preflight, the
// validation of values and options, the migration from Argo CD, lint. A finding
// is about something that a person looks at before it is used; what the running
// system will not do is a [slipway.dev/slipway/api/refusal.Refusal].
//
// It promises a Code that scripts can compare, and a Fix beside the Message.
//
// It refuses to import anything: every plane uses it.
package finding

import (
	"slices"
	"strconv"
)

// Severity is the weight of a finding.
type Severity string

// The severities. Only an error stops what the check was made for.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Finding is one result of a check.
type Finding struct {
	// Code is one stable CamelCase word, or the number of a check.
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	// Subject is the object, key, option, host or file that it is about; empty
	// for the input as a whole.
	Subject string `json:"subject,omitempty"`
	Message string `json:"message"`
	// Fix is a sentence, a command or a manifest that solves the problem.
	Fix string `json:"fix,omitempty"`
}

// String returns subject, message and fix on one line.
func (f Finding) String() string {
	text := f.Message
	if f.Subject != "" {
		text = f.Subject + ": " + text
	}
	if f.Fix != "" {
		text += ": " + f.Fix
	}
	return text
}

// HasErrors reports whether any finding is an error.
func HasErrors(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == Error })
}

// Count formats a number of things with the word for one or for many.
func Count(number int, one, many string) string {
	if number == 1 {
		return "1 " + one
	}
	return strconv.Itoa(number) + " " + many
}
