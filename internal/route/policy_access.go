package route

import "net/netip"

// BasicAuth admits requests with a user's password.
type BasicAuth struct {
	// Realm is shown with the password prompt.
	Realm string `json:"realm,omitempty"`
	// Users are the lines of an htpasswd file.
	Users Secret `json:"users"`
	// UserHeader passes the user's name on to the backend; empty does not.
	UserHeader string `json:"userHeader,omitempty"`
	// KeepAuthorization passes the password on to the backend.
	KeepAuthorization bool `json:"keepAuthorization,omitempty"`
}

// ForwardAuth lets an authentication server decide whether a request may pass.
type ForwardAuth struct {
	// Backend is the authentication server. It is a backend of the table, so a
	// policy cannot send the edge to an address of its own choosing.
	Backend BackendID `json:"backend"`
	// Path is the path of the sub-request, Host its Host header; when Host is
	// empty it is the backend's.
	Path string `json:"path"`
	Host string `json:"host,omitempty"`
	// Query follows the path, without its question mark.
	Query string `json:"query,omitempty"`
	// Method is that of the sub-request; GET when it is empty.
	Method string `json:"method,omitempty"`
	// RequestHeaders are copied into the sub-request; none means all.
	RequestHeaders []string `json:"requestHeaders,omitempty"`
	// ResponseHeaders are copied from its response into the request. The client's
	// own headers of these names are removed in any case.
	ResponseHeaders []string `json:"responseHeaders,omitempty"`
	// SigninURL is where a client without permission is redirected to.
	SigninURL string `json:"signinURL,omitempty"`
	// MaxBodyBytes of the request go into the sub-request; 0 sends no body.
	MaxBodyBytes int64 `json:"maxBodyBytes,omitempty"`
	// MaxResponseBytes bounds the response that is passed on to the client. 0 means
	// the edge's default.
	MaxResponseBytes int64 `json:"maxResponseBytes,omitempty"`
	// Timeout bounds the sub-request. 0 means the edge's default.
	Timeout Duration `json:"timeout,omitzero"`
}

// IPFilter admits requests by the address of the client. Deny comes first. With an
// Allow list, all other addresses are refused.
type IPFilter struct {
	Allow []netip.Prefix `json:"allow,omitempty"`
	Deny  []netip.Prefix `json:"deny,omitempty"`
	// Status is that of a refusal; 0 means 403.
	Status int `json:"status,omitempty"`
}

// ForwardCertificate passes the client's certificate on to the backend. The
// client's own headers of these names are removed in any case.
type ForwardCertificate struct {
	// PEMHeader gets the certificate as escaped PEM; empty does not send it.
	PEMHeader string `json:"pemHeader,omitempty"`
	// InfoHeader gets the fields named in Info; empty does not send them.
	InfoHeader string            `json:"infoHeader,omitempty"`
	Info       []CertificateInfo `json:"info,omitempty"`
}

// CertificateInfo is a field of a certificate.
type CertificateInfo string

// The fields that can be forwarded.
const (
	InfoSubject   CertificateInfo = "subject"
	InfoIssuer    CertificateInfo = "issuer"
	InfoSerial    CertificateInfo = "serial"
	InfoNotBefore CertificateInfo = "notBefore"
	InfoNotAfter  CertificateInfo = "notAfter"
	InfoNames     CertificateInfo = "names"
)
