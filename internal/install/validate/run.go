package validate

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/api/finding"
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
	// settingsError is why the Git settings of the account are not known.
	settingsError error
}

// Run validates values and returns the report. There is no error: a cluster or
// a platform that cannot be reached is a finding as well.
func Run(ctx context.Context, options Options) Report {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	i := &inspection{options: options, report: Report{Findings: []finding.Finding{}}}
	document, problems := values.Read(values.Runtime(), options.Values)
	i.document = document
	i.add(problems...)
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
		i.skip("no server was contacted: the cluster, the platform, the address and the Git provider were not checked")
	case !document.Flag(values.KeySkipValidation):
		i.online(ctx)
	}
	return i.report
}

// add adds findings.
func (i *inspection) add(found ...finding.Finding) {
	i.report.Findings = append(i.report.Findings, found...)
}

// wrong adds an error, which stops an installation.
func (i *inspection) wrong(code, key, message, fix string) {
	i.add(finding.Finding{Code: code, Severity: finding.Error, Subject: key, Message: message, Fix: fix})
}

// warn adds a warning: the installation goes on, and may not work yet.
func (i *inspection) warn(code, key, message, fix string) {
	i.add(finding.Finding{Code: code, Severity: finding.Warning, Subject: key, Message: message, Fix: fix})
}

// note adds information that needs no action now.
func (i *inspection) note(code, key, message string) {
	i.add(finding.Finding{Code: code, Severity: finding.Info, Subject: key, Message: message})
}

// skip records a check that was not made.
func (i *inspection) skip(what string) { i.report.Skipped = append(i.report.Skipped, what) }

// faulty reports whether a key has an error already, alone or as the first of
// several, so that consequences of it are not reported as well.
func (i *inspection) faulty(key string) bool {
	return slices.ContainsFunc(i.report.Findings, func(f finding.Finding) bool {
		return f.Severity == finding.Error && strings.HasPrefix(f.Subject+", ", key+", ")
	})
}
