package v1alpha1

// BasicAuth admits requests with the user name and password of one of the users
// in a Secret (RFC 7617).
type BasicAuth struct {
	Secret            string `json:"secret" required:"true" description:"Name of a Secret: with the lines of an htpasswd file under the key users or auth, or of type kubernetes.io/basic-auth with username and password. The edge keeps only an unsalted SHA-1 of the latter, so use it for long random passwords."`
	Realm             string `json:"realm,omitempty" maxLength:"256" description:"Shown to people who are asked for the password. Without it Restricted."`
	UserHeader        string `json:"userHeader,omitempty" description:"Header that tells the backend who it was. Without it nothing does."`
	KeepAuthorization bool   `json:"keepAuthorization,omitempty" description:"Passes the password on to the backend."`
}

// ForwardAuth sends a sub-request to a Service, which decides whether a request
// is admitted.
type ForwardAuth struct {
	Service          ServiceRef `json:"service" required:"true" description:"The Service that is asked."`
	Path             string     `json:"path,omitempty" default:"/" pattern:"^/" maxLength:"4096" description:"The path that is asked for."`
	Query            string     `json:"query,omitempty" maxLength:"4096" description:"Query of the question, without its question mark."`
	Host             string     `json:"host,omitempty" description:"Host header of the question. Without it, the one that the backend gets."`
	Method           string     `json:"method,omitempty" pattern:"^[A-Z]+$" description:"Method of the question. Without it GET."`
	RequestHeaders   []string   `json:"requestHeaders,omitempty" maxItems:"64" description:"Headers that are copied into the question. Without it all."`
	ResponseHeaders  []string   `json:"responseHeaders,omitempty" maxItems:"64" description:"Headers of the answer that are copied into the request. What the client sent under these names is removed."`
	SigninURL        string     `json:"signinURL,omitempty" maxLength:"4096" description:"Where a client without permission is sent."`
	MaxBodyBytes     Size       `json:"maxBodyBytes,omitempty" description:"How much of the body goes into the question. Without it none."`
	MaxResponseBytes Size       `json:"maxResponseBytes,omitempty" description:"Bounds the answer that is read. Without it, the default of the edge."`
	Timeout          Duration   `json:"timeout,omitempty" description:"Bounds question and answer. Without it, the default of the edge."`
}

// IPFilter admits or denies requests by the address of the client.
type IPFilter struct {
	Allow  []AddressRange `json:"allow,omitempty" maxItems:"1024" description:"Who is let in: ranges such as 10.0.0.0/8, or addresses."`
	Deny   []AddressRange `json:"deny,omitempty" maxItems:"1024" description:"Who stays out, even if allow has them."`
	Status int32          `json:"status,omitempty" minimum:"400" maximum:"599" description:"Status for who stays out. Without it 403."`
}

// ForwardCertificate passes the certificate of the client to the backend in
// request headers.
type ForwardCertificate struct {
	PEMHeader  string   `json:"pemHeader,omitempty" description:"Header that gets the certificate as escaped PEM."`
	InfoHeader string   `json:"infoHeader,omitempty" description:"Header that gets the fields of info."`
	Info       []string `json:"info,omitempty" maxItems:"6" enum:"subject,issuer,serial,notBefore,notAfter,names" description:"Fields of the certificate."`
}
