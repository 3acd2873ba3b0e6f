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
	// ResponseHeadersRegexp matches the names of further ones, in the spelling X-User. The
	// client's own headers that match are removed in any case.
	ResponseHeadersRegexp string `json:"responseHeadersRegexp,omitempty"`
	// SigninURL is where a client without permission is redirected to.
	SigninURL string `json:"signinURL,omitempty"`
	// MaxBodyBytes of the request go into the sub-request; 0 sends no body.
	MaxBodyBytes int64 `json:"maxBodyBytes,omitempty"`
	// MaxResponseBytes bounds the response that is passed on to the client. 0 means
	// the edge's default.
	MaxResponseBytes int64 `json:"maxResponseBytes,omitempty"`
	// Timeout bounds the sub-request. 0 means the edge's default.
	Timeout Duration `json:"timeout,omitzero"`
	// AuthRequest makes it auth_request of nginx; nil for other policies.
	AuthRequest *AuthRequest `json:"authRequest,omitempty"`
}

// IPFilter admits requests by the address of the client. Deny comes first. With an
// Allow list, all other addresses are refused.
type IPFilter struct {
	Allow []netip.Prefix `json:"allow,omitempty"`
	Deny  []netip.Prefix `json:"deny,omitempty"`
	// Status is that of a refusal; 0 means 403.
	Status int `json:"status,omitempty"`
	// Client selects the address; without it, the entry point does. Requests of which
	// it selects none are refused.
	Client *ClientSource `json:"client,omitempty"`
}

// ClientSource selects the address of a client among those of X-Forwarded-For, in the place
// of the entry point. The header counts only if a trusted proxy sent it. It has a depth or
// excluded networks.
type ClientSource struct {
	// Depth is the place of the address, counted from the right, from 1.
	Depth int `json:"depth,omitempty"`
	// Excluded are networks of proxies: the address is the right-most one in none of
	// them.
	Excluded []netip.Prefix `json:"excluded,omitempty"`
}

// ForwardCertificate passes the client's certificate on to the backend. The
// client's own headers of these names are removed in any case.
type ForwardCertificate struct {
	// PEMHeader gets the certificate as escaped PEM; empty does not send it.
	PEMHeader string `json:"pemHeader,omitempty"`
	// Bare leaves the first and last line and the line ends out of PEMHeader, as Traefik
	// does.
	Bare bool `json:"bare,omitempty"`
	// InfoHeader gets the fields named in Info; empty does not send them.
	InfoHeader string            `json:"infoHeader,omitempty"`
	Info       []CertificateInfo `json:"info,omitempty"`
	// Subject and Issuer are the parts that the two names have in InfoHeader; none
	// sends the whole name.
	Subject []NamePart `json:"subject,omitempty"`
	Issuer  []NamePart `json:"issuer,omitempty"`
	// VerifyHeader gets the result of the verification as nginx has it: SUCCESS, NONE
	// without a certificate, or FAILED with a reason; empty does not send it.
	VerifyHeader string `json:"verifyHeader,omitempty"`
	// Unverified is set if clients may have certificates of unknown authorities.
	// VerifyHeader is FAILED for all then.
	Unverified bool `json:"unverified,omitempty"`
	// SubjectHeader and IssuerHeader get the names of the certificate as nginx has them
	// (RFC 2253); empty does not send them.
	SubjectHeader string `json:"subjectHeader,omitempty"`
	IssuerHeader  string `json:"issuerHeader,omitempty"`
}

// NamePart is a part of the name of a subject or an issuer.
type NamePart string

// The parts of a name. They are sent in this order.
const (
	PartDomainComponent    NamePart = "domainComponent"
	PartCountry            NamePart = "country"
	PartProvince           NamePart = "province"
	PartLocality           NamePart = "locality"
	PartOrganization       NamePart = "organization"
	PartOrganizationalUnit NamePart = "organizationalUnit"
	PartSerialNumber       NamePart = "serialNumber"
	PartCommonName         NamePart = "commonName"
)

// NameParts returns all parts, in their order.
func NameParts() []NamePart {
	return []NamePart{
		PartDomainComponent, PartCountry, PartProvince, PartLocality, PartOrganization, PartOrganizationalUnit, PartSerialNumber, PartCommonName,
	}
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
