// Package validate checks the values of a runtime's chart before anything is
// changed: by themselves, and against the cluster, the platform, the address
// and the Git provider that they name. slipway helm validate and the hook of
// the chart run it.
//
// It promises to report all problems at once, each with a code, the key, a
// message and the fix; to change nothing; and to end within a minute. An address
// that may respond later is a warning.
//
// It refuses to quote secrets in findings.
package validate

import "slipway.dev/slipway/api/finding"

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
	Upgrade bool `json:"upgrade"`
	// Findings have the keys of the values as their subjects.
	Findings []finding.Finding `json:"findings"`
	// Skipped are checks that were not made, and why.
	Skipped []string `json:"skipped,omitempty"`
}

// OK reports whether an installation may go on.
func (r Report) OK() bool { return !finding.HasErrors(r.Findings) }

// Errors counts the findings that stop an installation.
func (r Report) Errors() int {
	count := 0
	for _, each := range r.Findings {
		if each.Severity == finding.Error {
			count++
		}
	}
	return count
}

// The codes of findings, beside those of the packages values, config and
// access/mode.
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
	CodeGitServer        = "GitServerMissing"
	CodeCATwice          = "AuthoritiesTwice"
	CodeCAInvalid        = "AuthoritiesInvalid"
	CodeRouteUnknown     = "AccessFieldUnknown"
	CodeMeshGateway      = "MeshGatewayMissing"
	CodeNamespaces       = "NamespacesContradiction"
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
