package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"slipway.dev/slipway/api/finding"
)

// Code identifies a check of the catalogue: P1 to P28. Codes are stable:
// documentation and scripts refer to them.
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
	URLResponse       Code = "P19"
	RouteResources    Code = "P20"
	DNS               Code = "P21"
	GitCredentials    Code = "P22"
	GitScopes         Code = "P23"
	GitExpiry         Code = "P24"
	SharedRepository  Code = "P25"
	GitTLS            Code = "P26"
	Egress            Code = "P27"
	GatewayAPI        Code = "P28"
)

// Name returns the name of the check, such as tls-cert.
func (c Code) Name() string {
	// The catalogue has 28 entries, so a linear search is sufficient.
	for _, one := range catalogue() {
		if one.code == c {
			return one.name
		}
	}
	return ""
}

// ParseCode parses P16, p16 or tls-cert.
func ParseCode(text string) (Code, error) {
	for _, one := range catalogue() {
		if strings.EqualFold(text, string(one.code)) || strings.EqualFold(text, one.name) {
			return one.code, nil
		}
	}
	return "", fmt.Errorf("there is no check %q: name P1 to P28, or a check such as %s", text, TLSCertificate.Name())
}

// Finding is a finding that may come with its repair. An error prevents the
// installation of the runtime or access to it.
type Finding struct {
	finding.Finding
	// Looked is what was inspected to find it.
	Looked string `json:"looked,omitempty"`
	// Plan shows the change that Apply makes.
	Plan string `json:"plan,omitempty"`
	// Apply repairs the problem; nil if that is not possible from here.
	Apply func(ctx context.Context) error `json:"-"`
}

// State is the result of a check.
type State string

// States. Warned and Failed follow from the most severe finding.
const (
	Passed  State = "ok"
	Warned  State = "warning"
	Failed  State = "error"
	Skipped State = "skipped"
)

// Result is the result of one check.
type Result struct {
	Code  Code   `json:"code"`
	Name  string `json:"name"`
	State State  `json:"state"`
	// Looked is what was inspected.
	Looked string `json:"looked,omitempty"`
	// Message is why the check was skipped.
	Message  string    `json:"message,omitempty"`
	Findings []Finding `json:"findings,omitempty"`
}

// Errors counts the failed checks.
func Errors(results []Result) int {
	count := 0
	for _, result := range results {
		if result.State == Failed {
			count++
		}
	}
	return count
}

// Report collects the findings of one check. Only its check's goroutine uses
// it.
type Report struct {
	code  Code
	stage Stage
	// versionRuns is set when P1 is among the checks.
	versionRuns bool

	inspected []string
	skipped   string
	findings  []Finding
}

// inspect records what is inspected, without duplicates.
func (r *Report) inspect(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.inspected, text) {
		r.inspected = append(r.inspected, text)
	}
}

// skip marks a check as not applicable.
func (r *Report) skip(format string, args ...any) { r.skipped = fmt.Sprintf(format, args...) }

// add appends a finding with the code of the check. The returned pointer is
// valid until the next call.
func (r *Report) add(found finding.Finding) *Finding {
	found.Code = string(r.code)
	r.findings = append(r.findings, Finding{Finding: found, Looked: strings.Join(r.inspected, "; ")})
	return &r.findings[len(r.findings)-1]
}

// fail adds an error.
func (r *Report) fail(subject, message, fix string) *Finding {
	return r.add(finding.Finding{Severity: finding.Error, Subject: subject, Message: message, Fix: fix})
}

// warn adds a warning.
func (r *Report) warn(subject, message, fix string) *Finding {
	return r.add(finding.Finding{Severity: finding.Warning, Subject: subject, Message: message, Fix: fix})
}

// note adds information.
func (r *Report) note(subject, message string) *Finding {
	return r.add(finding.Finding{Severity: finding.Info, Subject: subject, Message: message})
}

// pending adds a warning before the installation, which may still create it,
// and an error after it.
func (r *Report) pending(subject, message, fix string) *Finding {
	if r.stage == Before {
		return r.warn(subject, message+"; it is checked again after the install", fix)
	}
	return r.fail(subject, message, fix)
}

// result returns the result of the completed check.
func (r *Report) result() Result {
	// A check without findings has passed.
	result := Result{Code: r.code, Name: r.code.Name(), State: Passed, Looked: strings.Join(r.inspected, "; "), Findings: r.findings}
	// A check that skipped one part but found a problem in another is not
	// skipped.
	if r.skipped != "" && len(r.findings) == 0 {
		result.State, result.Message = Skipped, r.skipped
		return result
	}
	for _, found := range r.findings {
		switch found.Severity {
		case finding.Error:
			result.State = Failed
		case finding.Warning:
			if result.State != Failed {
				result.State = Warned
			}
		case finding.Info:
		}
	}
	return result
}
