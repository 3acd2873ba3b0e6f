package validate

import (
	"context"
	"io"
	"slices"
	"time"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/install/values"
	"slipway.dev/slipway/internal/secret"
)

// longest bounds a validation, so that an installation does not hang on it.
const longest = time.Minute

// Options select what is validated, and against what.
type Options struct {
	// Values is a values file of the chart gitops-runtime.
	Values io.Reader
	// Namespace is where the runtime is to be installed, and Version that of the
	// chart; an empty version is the newest.
	Namespace, Version string
	// World is what the values are checked against; nil for the values alone.
	World World
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// inspection is one validation. The offline checks fill in its fields, and the
// online checks use them. It is used by one goroutine.
type inspection struct {
	options  Options
	document values.Document
	settings mode.Settings
	chosen   mode.Mode
	report   Report

	// token, git and authorities are the credentials of the values, inline or
	// from Secrets of the cluster. They are zero if there are none.
	token       secret.Text
	git         secret.Text
	authorities []byte
	// held is the credential of the runtime in the namespace.
	held *Membership
}

// Run validates values and returns the report. There is no error: a cluster or
// a platform that cannot be reached is a finding as well.
func Run(ctx context.Context, options Options) Report {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	if options.Now == nil {
		options.Now = time.Now
	}
	i := &inspection{options: options, report: Report{Findings: []Finding{}}}
	document, problems := values.Read(values.Runtime(), options.Values)
	i.document = document
	for _, problem := range problems {
		severity := Error
		if problem.Warning {
			severity = Warning
		}
		i.add(Finding{Code: problem.Code, Severity: severity, Key: problem.Key, Reason: problem.Reason, Fix: problem.Fix})
	}
	// Nothing was decoded, so every further check would only report a
	// consequence.
	if len(problems) == 1 && problems[0].Code == values.CodeUnreadable {
		return i.report
	}
	// The flag leaves out the online checks and not the offline ones.
	if document.Flag(values.KeySkipValidation) {
		i.skip(values.KeySkipValidation + " is true: only the values themselves were checked")
	}
	i.offline()
	switch {
	case options.World == nil:
		i.skip("nobody was asked: the cluster, the platform, the address and the Git provider were not checked")
	case !document.Flag(values.KeySkipValidation):
		i.online(ctx)
	}
	return i.report
}

// add adds a finding.
func (i *inspection) add(finding Finding) { i.report.Findings = append(i.report.Findings, finding) }

// wrong adds an error, which stops an installation.
func (i *inspection) wrong(code, key, reason, fix string) {
	i.add(Finding{Code: code, Severity: Error, Key: key, Reason: reason, Fix: fix})
}

// warn adds a warning: the installation goes on, and may not work yet.
func (i *inspection) warn(code, key, reason, fix string) {
	i.add(Finding{Code: code, Severity: Warning, Key: key, Reason: reason, Fix: fix})
}

// note adds information that needs no action now.
func (i *inspection) note(code, key, reason string) {
	i.add(Finding{Code: code, Severity: Note, Key: key, Reason: reason})
}

// skip records a check that was not made.
func (i *inspection) skip(what string) { i.report.Skipped = append(i.report.Skipped, what) }

// faulty reports whether a key has an error already, so that consequences of it
// are not reported as well.
func (i *inspection) faulty(key string) bool {
	return slices.ContainsFunc(i.report.Findings, func(f Finding) bool { return f.Severity == Error && f.Key == key })
}
