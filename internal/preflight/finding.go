package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Code is a check of the catalogue: P1 to P27.
type Code string

// The catalogue.
const (
	KubernetesVersion Code = "P1"
	HelmVersion       Code = "P2"
	NodeSize          Code = "P3"
	Rights            Code = "P4"
	ArgoCollision     Code = "P5"
	SealedSecrets     Code = "P6"
	CRDOwnership      Code = "P7"
	RuntimeName       Code = "P8"
	NamespaceName     Code = "P9"
	TokenOrigin       Code = "P10"
	AccountAdmin      Code = "P11"
	AccountMatch      Code = "P12"
	AccessMode        Code = "P13"
	IngressClass      Code = "P14"
	ExternalAddress   Code = "P15"
	TLSCertificate    Code = "P16"
	TCP               Code = "P17"
	StatusReport      Code = "P18"
	URLAnswer         Code = "P19"
	RouteResources    Code = "P20"
	DNS               Code = "P21"
	GitCredentials    Code = "P22"
	GitScopes         Code = "P23"
	GitExpiry         Code = "P24"
	SharedRepository  Code = "P25"
	GitTLS            Code = "P26"
	Egress            Code = "P27"
)

// Name is the check in words, such as tls-cert.
func (c Code) Name() string {
	for _, one := range catalogue() {
		if one.code == c {
			return one.name
		}
	}
	return ""
}

// Codes are those of the catalogue, in its order.
func Codes() []Code {
	var all []Code
	for _, one := range catalogue() {
		all = append(all, one.code)
	}
	return all
}

// ParseCode reads P16, p16 or tls-cert.
func ParseCode(text string) (Code, error) {
	for _, one := range catalogue() {
		if strings.EqualFold(text, string(one.code)) || strings.EqualFold(text, one.name) {
			return one.code, nil
		}
	}
	return "", fmt.Errorf("there is no check %q: name P1 to P27, or a check such as %s", text, TLSCertificate.Name())
}

// Severity is how bad a finding is.
type Severity string

// The severities. An error keeps the runtime from being installed or reached.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
	SeverityInfo    Severity = "info"
)

// Finding is something that somebody has to know.
type Finding struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	// Subject is the object, host or key that it is about.
	Subject string `json:"subject,omitempty"`
	// Looked says what was looked at to find it.
	Looked  string `json:"looked,omitempty"`
	Message string `json:"message"`
	// Fix is what to do: a sentence, a command or a manifest.
	Fix string `json:"fix,omitempty"`
	// Plan shows what Apply changes.
	Plan string `json:"plan,omitempty"`
	// Apply repairs it; nil when it cannot be repaired from here.
	Apply func(ctx context.Context) error `json:"-"`
}

// State is how a check ended.
type State string

// The states. Warned and Failed are those of the worst finding.
const (
	Passed  State = "ok"
	Warned  State = "warning"
	Failed  State = "error"
	Skipped State = "skipped"
)

// Result is one check.
type Result struct {
	Code   Code   `json:"code"`
	Name   string `json:"name"`
	State  State  `json:"state"`
	Looked string `json:"looked,omitempty"`
	// Reason says why it was skipped.
	Reason   string    `json:"reason,omitempty"`
	Findings []Finding `json:"findings,omitempty"`
}

// Errors counts the checks that failed.
func Errors(results []Result) int {
	count := 0
	for _, result := range results {
		if result.State == Failed {
			count++
		}
	}
	return count
}

// Report collects what one check finds.
type Report struct {
	code  Code
	stage Stage
	// versionRuns is set when P1 is among the checks.
	versionRuns bool

	looked   []string
	skipped  string
	findings []Finding
}

// look notes what is looked at.
func (r *Report) look(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.looked, text) {
		r.looked = append(r.looked, text)
	}
}

// skip ends a check that does not apply here.
func (r *Report) skip(format string, args ...any) { r.skipped = fmt.Sprintf(format, args...) }

// add keeps a finding. What it returns is good until the next one.
func (r *Report) add(severity Severity, subject, message, fix string) *Finding {
	r.findings = append(r.findings, Finding{
		Code: r.code, Severity: severity, Subject: subject, Looked: strings.Join(r.looked, "; "), Message: message, Fix: fix,
	})
	return &r.findings[len(r.findings)-1]
}

func (r *Report) fail(subject, message, fix string) *Finding {
	return r.add(SeverityError, subject, message, fix)
}

func (r *Report) warn(subject, message, fix string) *Finding {
	return r.add(SeverityWarning, subject, message, fix)
}

func (r *Report) note(subject, message string) *Finding {
	return r.add(SeverityInfo, subject, message, "")
}

// later is a warning before the install, where it may still come, and an error
// after it.
func (r *Report) later(subject, message, fix string) *Finding {
	if r.stage == Before {
		return r.warn(subject, message+"; it is checked again after the install", fix)
	}
	return r.fail(subject, message, fix)
}

// result is the report when the check has ended.
func (r *Report) result() Result {
	result := Result{Code: r.code, Name: r.code.Name(), State: Passed, Looked: strings.Join(r.looked, "; "), Findings: r.findings}
	if r.skipped != "" && len(r.findings) == 0 {
		result.State, result.Reason = Skipped, r.skipped
		return result
	}
	for _, finding := range r.findings {
		switch finding.Severity {
		case SeverityError:
			result.State = Failed
		case SeverityWarning:
			if result.State != Failed {
				result.State = Warned
			}
		case SeverityInfo:
		}
	}
	return result
}
