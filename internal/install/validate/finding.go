// Package validate checks the values of a runtime's chart before anything is
// changed: by themselves, and against the cluster, the platform, the address
// and the Git provider that they name. slipway helm validate and the hook of
// the chart run it.
//
// It promises to report all problems at once, each with a code, the key, the
// reason and the fix; to change nothing; and to end within a minute. An address
// that may respond later is a warning.
//
// It refuses to quote secrets in findings.
package validate

import (
	"fmt"
	"slices"
)

// Severity is the weight of a finding.
type Severity string

// The severities. An installation goes on with warnings and notes.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "info"
)

// Finding is one problem of the values.
type Finding struct {
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	// Key is the value that it is about, empty for the file as a whole.
	Key    string `json:"key,omitempty"`
	Reason string `json:"reason"`
	Fix    string `json:"fix,omitempty"`
}

// String formats the finding in one sentence.
func (f Finding) String() string {
	text := f.Reason
	if f.Key != "" {
		text = f.Key + ": " + text
	}
	if f.Fix != "" {
		text += ": " + f.Fix
	}
	return fmt.Sprintf("%s (%s)", text, f.Code)
}

// Report is the result of a validation.
type Report struct {
	// Runtime is its name, Mode how it is to be reached, and URL where. They
	// are empty when the values do not determine them.
	Runtime string `json:"runtime,omitempty"`
	// Account is the ID of the account that the values name.
	Account string `json:"account,omitempty"`
	Mode    string `json:"mode,omitempty"`
	URL     string `json:"url,omitempty"`
	// Upgrade is set if the namespace has a runtime already.
	Upgrade  bool      `json:"upgrade"`
	Findings []Finding `json:"findings"`
	// Skipped are checks that were not made, and why.
	Skipped []string `json:"skipped,omitempty"`
}

// OK reports whether an installation may go on.
func (r Report) OK() bool {
	return !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity == Error })
}

// Count returns the number of findings of a severity.
func (r Report) Count(severity Severity) int {
	count := 0
	for _, finding := range r.Findings {
		if finding.Severity == severity {
			count++
		}
	}
	return count
}

// The codes of findings, beside those of the packages values and access/mode.
// Programs can rely on them; the texts may change.
const (
	CodeNamespace        = "NamespaceInvalid"
	CodeVersion          = "VersionInvalid"
	CodeURLMissing       = "PlatformURLMissing"
	CodeURLPlain         = "PlatformURLNotEncrypted"
	CodeTokenMissing     = "TokenMissing"
	CodeTokenTwice       = "TokenTwice"
	CodeTokenReserved    = "TokenSecretReserved"
	CodeAccountMissing   = "AccountMissing"
	CodeGitMissing       = "GitPasswordMissing"
	CodeGitTwice         = "GitPasswordTwice"
	CodeCATwice          = "AuthoritiesTwice"
	CodeCAInvalid        = "AuthoritiesInvalid"
	CodeRouteUnknown     = "AccessFieldUnknown"
	CodeMeshGateway      = "MeshGatewayMissing"
	CodeNamespaces       = "NamespacesContradiction"
	CodeOption           = "OptionInvalid"
	CodeOptionSecret     = "OptionSecret"
	CodeSecretMissing    = "SecretMissing"
	CodeSecretKey        = "SecretKeyMissing"
	CodeClusterUnread    = "ClusterUnreadable"
	CodeClassMissing     = "IngressClassMissing"
	CodePlatformDown     = "PlatformUnreachable"
	CodeTokenRefused     = "TokenRefused"
	CodeNotAdmin         = "NotAdmin"
	CodeKeyScope         = "TokenScope"
	CodeAccountDiffers   = "AccountDiffers"
	CodeNameTaken        = "RuntimeNameTaken"
	CodeRuntimeDiffers   = "RuntimeDiffers"
	CodeAddressDown      = "AddressUnreachable"
	CodeAddressFails     = "AddressFails"
	CodeGitRefused       = "GitTokenRefused"
	CodeGitScope         = "GitScopeMissing"
	CodeGitExpiry        = "GitTokenExpires"
	CodeGitUnreachable   = "GitUnreachable"
	CodeGitUnverified    = "GitUnverified"
	CodeSharedRepository = "SharedRepositoryInvalid"
)
