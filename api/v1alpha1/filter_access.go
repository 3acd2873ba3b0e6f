package v1alpha1

// BasicAuth admits requests with the user name and password of one of the users
// in a Secret (RFC 7617).
type BasicAuth struct {
	Secret            string `json:"secret" required:"true" description:"Name of a Secret: with the lines of an htpasswd file under the key users or auth, or of type kubernetes.io/basic-auth with username and password. The edge stores only an unsalted SHA-1 of the latter, so use it for long random passwords."`
	Realm             string `json:"realm,omitempty" maxLength:"256" description:"Realm that browsers show in the password prompt. Defaults to Restricted."`
	UserHeader        string `json:"userHeader,omitempty" description:"Request header with the user name for the backend. By default, the backend gets none."`
	KeepAuthorization bool   `json:"keepAuthorization,omitempty" description:"Forwards the Authorization header to the backend."`
}

// ForwardAuth sends a sub-request to a Service, which decides whether a request
// is admitted.
type ForwardAuth struct {
	Service          ServiceRef `json:"service" required:"true" description:"The authorization Service."`
	Path             string     `json:"path,omitempty" default:"/" pattern:"^/" maxLength:"4096" description:"Path of the sub-request."`
	Query            string     `json:"query,omitempty" maxLength:"4096" description:"Query of the sub-request, without the question mark."`
	Host             string     `json:"host,omitempty" description:"Host header of the sub-request. Defaults to the one that the backend gets."`
	Method           string     `json:"method,omitempty" pattern:"^[A-Z]+$" description:"Method of the sub-request. Defaults to GET."`
	RequestHeaders   []string   `json:"requestHeaders,omitempty" maxItems:"64" description:"Headers that are copied into the sub-request. Defaults to all."`
	ResponseHeaders  []string   `json:"responseHeaders,omitempty" maxItems:"64" description:"Headers of the sub-response that are copied into the request. Headers of the client with these names are removed."`
	SigninURL        string     `json:"signinURL,omitempty" maxLength:"4096" description:"URL that a client without permission is redirected to."`
	MaxBodyBytes     Size       `json:"maxBodyBytes,omitempty" description:"Maximum number of body bytes in the sub-request. Defaults to none."`
	MaxResponseBytes Size       `json:"maxResponseBytes,omitempty" description:"Maximum size of the sub-response. Defaults to that of the edge."`
	Timeout          Duration   `json:"timeout,omitempty" description:"Timeout of the sub-request. Defaults to that of the edge."`
}

// IPFilter admits or denies requests by the address of the client.
type IPFilter struct {
	Allow  []AddressRange `json:"allow,omitempty" maxItems:"1024" description:"Allowed clients: networks such as 10.0.0.0/8, or addresses."`
	Deny   []AddressRange `json:"deny,omitempty" maxItems:"1024" description:"Denied clients, even if allow contains them."`
	Status int32          `json:"status,omitempty" minimum:"400" maximum:"599" description:"Status of the response to denied clients. Defaults to 403."`
}

// ForwardCertificate passes the certificate of the client to the backend in
// request headers.
type ForwardCertificate struct {
	PEMHeader  string   `json:"pemHeader,omitempty" description:"Header with the certificate as escaped PEM."`
	InfoHeader string   `json:"infoHeader,omitempty" description:"Header with the fields of info."`
	Info       []string `json:"info,omitempty" maxItems:"6" enum:"subject,issuer,serial,notBefore,notAfter,names" description:"Fields of the certificate."`
}

// WAF inspects requests and responses with the rules of a web application firewall.
type WAF struct {
	Mode             string `json:"mode,omitempty" default:"detect" enum:"detect,deny" description:"Whether requests that match rules are only logged and counted (detect), or get 403 (deny)."`
	WithoutCoreRules bool   `json:"withoutCoreRules,omitempty" description:"Leaves out the OWASP Core Rule Set, so that directives have all the rules."`
	Directives       string `json:"directives,omitempty" description:"Directives of ModSecurity that are added: rules, exceptions and limits, of a closed set. They come before the Core Rule Set, and exceptions apply to it."`
}
