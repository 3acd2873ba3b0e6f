package route

import "net/netip"

// BasicAuth lets in who knows a user's password.
type BasicAuth struct {
	// Realm is shown to people when they are asked for the password.
	Realm string `json:"realm,omitempty"`
	// Users are the lines of an htpasswd file.
	Users Secret `json:"users"`
	// UserHeader tells the backend who it was; empty does not.
	UserHeader string `json:"userHeader,omitempty"`
	// KeepAuthorization passes the password on to the backend.
	KeepAuthorization bool `json:"keepAuthorization,omitempty"`
}

// ForwardAuth asks another server whether a request may pass.
type ForwardAuth struct {
	// Backend is asked, and it is the only one: a policy cannot send the edge to
	// an address of its own choosing.
	Backend BackendID `json:"backend"`
	// Path is asked for, and Host is sent as the Host header; when Host is empty
	// it is the backend's.
	Path string `json:"path"`
	Host string `json:"host,omitempty"`
	// Query follows the path, without its question mark.
	Query string `json:"query,omitempty"`
	// Method is that of the question; GET when it is empty.
	Method string `json:"method,omitempty"`
	// RequestHeaders are copied into the question; none means all.
	RequestHeaders []string `json:"requestHeaders,omitempty"`
	// ResponseHeaders of the answer are copied into the request. What the
	// client sent under these names is removed in any case.
	ResponseHeaders []string `json:"responseHeaders,omitempty"`
	// SigninURL is where a client without permission is sent.
	SigninURL string `json:"signinURL,omitempty"`
	// MaxBodyBytes of the request go into the question; 0 sends no body.
	MaxBodyBytes int64 `json:"maxBodyBytes,omitempty"`
	// MaxResponseBytes bounds the answer that is read and passed to the client.
	// 0 means the edge's default.
	MaxResponseBytes int64 `json:"maxResponseBytes,omitempty"`
	// Timeout bounds question and answer. 0 means the edge's default.
	Timeout Duration `json:"timeout,omitzero"`
}

// IPFilter lets in by the address of the client. Deny is asked first. With an
// Allow list, who is not in it stays out.
type IPFilter struct {
	Allow []netip.Prefix `json:"allow,omitempty"`
	Deny  []netip.Prefix `json:"deny,omitempty"`
	// Status is what who stays out gets; 0 means 403.
	Status int `json:"status,omitempty"`
}

// ForwardCertificate tells the backend about the client's certificate. What
// the client itself sent under these names is removed in any case.
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
