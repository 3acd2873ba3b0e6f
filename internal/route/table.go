package route

import "time"

// Table is the desired state of the edge. The lists are sets: their order means
// nothing, and no two elements have the same identity.
type Table struct {
	// EntryPoints are the names of the addresses that take traffic. The edge
	// fills them in from its options; a source of routes leaves them empty.
	EntryPoints  []string       `json:"entryPoints,omitempty"`
	Listeners    []*Listener    `json:"listeners,omitempty"`
	Rules        []*Rule        `json:"rules,omitempty"`
	TCPRoutes    []*TCPRoute    `json:"tcpRoutes,omitempty"`
	Backends     []*Backend     `json:"backends,omitempty"`
	Certificates []*Certificate `json:"certificates,omitempty"`
	Authorities  []*Authority   `json:"authorities,omitempty"`
	TLSOptions   []*TLSOptions  `json:"tlsOptions,omitempty"`
}

// Rule matches requests and serves them. It has backends or a response, never both
// and never neither. A rule that only redirects has the
// redirect as a policy and a response for the case that it does not apply.
type Rule struct {
	ID ID `json:"id"`
	// EntryPoints are the entry points that the rule serves; none means all.
	EntryPoints []string `json:"entryPoints,omitempty"`
	// Listener ties the rule to one listener, instead of to entry points. A
	// wildcard host stands for one or more labels then, as in Gateway API.
	Listener ListenerID `json:"listener,omitzero"`
	// Host is a name in lower case, a wildcard such as *.example.com that stands
	// for exactly one more label, or empty for every host.
	Host  string `json:"host,omitempty"`
	Match Match  `json:"match,omitzero"`
	// Fallback makes the rule serve the requests that the other rules of its host
	// do not match. It has no match then.
	Fallback bool `json:"fallback,omitempty"`
	// HostOwner is the owner of the host, where hosts belong to namespaces.
	HostOwner HostOwner `json:"hostOwner,omitzero"`
	// Priority orders before everything else; higher comes first. Where the host
	// has an owner, it orders the rules of the owner for this host only.
	Priority int32 `json:"priority,omitempty"`
	// HostRank orders the rules that a listener has for one host, before their paths;
	// higher comes first. In Gateway API it follows from the host names of the routes.
	HostRank int32 `json:"hostRank,omitempty"`
	// Created is when the object was created; the older of two equal rules wins.
	Created time.Time `json:"created,omitzero"`

	Policies []Policy `json:"policies,omitempty"`
	// Directives are directives of nginx that are carried out among the policies.
	Directives *Directives `json:"directives,omitempty"`
	// Rewrite changes host and path of the requests, after the policies.
	Rewrite  *Rewrite     `json:"rewrite,omitempty"`
	Backends []BackendRef `json:"backends,omitempty"`
	Response *Response    `json:"response,omitempty"`
	Timeouts Timeouts     `json:"timeouts,omitzero"`
	// Sticky keeps a client at the backend that it got first, even after the weight of
	// that became 0. To keep it at one endpoint too, see Backend.Sticky.
	Sticky *StickyCookie `json:"sticky,omitempty"`
	// Unrecorded lists the records that the edge does not make of the requests.
	Unrecorded Unrecorded `json:"unrecorded,omitzero"`
}

// HostOwner names the namespace that the host of a rule belongs to, and what
// follows for the rule. All rules of a host name the same owner. The zero value is that of
// a rule whose host all namespaces share, and of the operator's own rules.
type HostOwner struct {
	// Namespace is the owner. A rule of another namespace has no priority.
	Namespace string `json:"namespace,omitempty"`
	// Exclusive keeps requests for the host from the rules that other namespaces
	// have for a less specific host, a wildcard or none.
	Exclusive bool `json:"exclusive,omitempty"`
	// Behind puts the rule behind all rules of the host that are not behind.
	Behind bool `json:"behind,omitempty"`
}

// Unrecorded keeps the requests of a rule out of logs, metrics or traces.
type Unrecorded struct {
	AccessLog bool `json:"accessLog,omitempty"`
	Metrics   bool `json:"metrics,omitempty"`
	Tracing   bool `json:"tracing,omitempty"`
}

// BackendRef names a backend and its share of the requests.
type BackendRef struct {
	Backend BackendID `json:"backend,omitzero"`
	// Status is the response to the requests of this share where there is no
	// backend for them; 0 with a backend.
	Status int `json:"status,omitempty"`
	// Weight is the share, in relation to the other weights of the list. A
	// weight of 0 gets nothing, unless all are 0: then all are equal.
	Weight uint32 `json:"weight,omitempty"`
	// Fallback gets the requests of the other backends while the one whose turn it is has
	// no healthy endpoint, and no others. A list has at most one; its weight has no effect.
	Fallback bool `json:"fallback,omitempty"`
	// RequestHeaders and ResponseHeaders are changed in the requests of this share
	// only, nearer to the backend than the policies of the rule. With them a backend
	// can be listed more than once.
	RequestHeaders  *RequestHeaders  `json:"requestHeaders,omitempty"`
	ResponseHeaders *ResponseHeaders `json:"responseHeaders,omitempty"`
}

// Reason is why a response takes the place of a backend: a word for logs, metrics
// and the header of the response.
type Reason string

// The reasons for a response.
const (
	// ReasonRefused: a part of the rule was refused. It responds with 503, because
	// serving without that part would be unsafe.
	ReasonRefused Reason = "Refused"
	// ReasonNoService: the Service or its port does not exist.
	ReasonNoService Reason = "NoService"
	// ReasonNoEndpoint: the Service has no ready endpoint.
	ReasonNoEndpoint Reason = "NoEndpoint"
	// ReasonConfigured: the response is configured.
	ReasonConfigured Reason = "Configured"
)

// Response is a response of the edge itself, after the policies ran.
type Response struct {
	// Status is an HTTP status from 200 to 599.
	Status int    `json:"status"`
	Reason Reason `json:"reason,omitempty"`
	// Message explains it to people, in logs and in the output of explain. Clients
	// do not get it.
	Message string `json:"message,omitempty"`
	// Body is sent to clients, as plain text. Only a configured response has one;
	// others have the text of their status.
	Body string `json:"body,omitempty"`
	// Redirect makes it a redirect: Status is 301, 302, 303, 307 or 308 then.
	Redirect *Redirect `json:"redirect,omitempty"`
}

// Rewrite is what the backend gets instead of host and path of the request. It is a
// field of the rule, and no policy, because it depends on what the rule matches.
type Rewrite struct {
	// Host is sent as the Host header, also where the backend has one of its own.
	Host string `json:"host,omitempty"`
	// Path and ReplacePrefix are as in Redirect.
	Path          string `json:"path,omitempty"`
	ReplacePrefix string `json:"replacePrefix,omitempty"`
}

// Redirect leads clients to a URL that is composed of the given parts; the others are
// those of the request.
type Redirect struct {
	// Scheme is that of the request when it is empty.
	Scheme Scheme `json:"scheme,omitempty"`
	// Host is that of the request when it is empty, without its port.
	Host string `json:"host,omitempty"`
	// Port is left out of the URL where the scheme implies it, and when it is 0.
	Port uint16 `json:"port,omitempty"`
	// Path replaces the path, or, with ReplacePrefix, the start of it.
	Path string `json:"path,omitempty"`
	// ReplacePrefix is the prefix that Path takes the place of, element by element.
	ReplacePrefix string `json:"replacePrefix,omitempty"`
}

// Timeouts bound the waits for a backend. 0 means the edge's default.
type Timeouts struct {
	// Connect bounds making a connection.
	Connect Duration `json:"connect,omitzero"`
	// Header bounds the wait for the head of the response.
	Header Duration `json:"header,omitzero"`
	// Idle bounds the wait between two pieces of a body, either way. It, and not
	// Total, stops a stuck transfer without breaking a long one.
	Idle Duration `json:"idle,omitzero"`
	// Attempt bounds one attempt at an endpoint, up to the end of its response;
	// without it there is no bound. What fails by it can be retried.
	Attempt Duration `json:"attempt,omitzero"`
	// Total bounds the whole exchange; without it there is no bound.
	Total Duration `json:"total,omitzero"`
}

// StickyCookie keeps a client where it was first sent.
type StickyCookie struct {
	// Name is the name of the cookie. Without it, the edge derives one from the
	// identity of the rule or backend.
	Name     string   `json:"name,omitempty"`
	Path     string   `json:"path,omitempty"`
	Domain   string   `json:"domain,omitempty"`
	Secure   bool     `json:"secure,omitempty"`
	HTTPOnly bool     `json:"httpOnly,omitempty"`
	SameSite SameSite `json:"sameSite,omitempty"`
	// MaxAge is how long the client keeps the cookie; 0 is until it closes.
	MaxAge Duration `json:"maxAge,omitzero"`
}

// SameSite selects the requests from other sites that carry a cookie.
type SameSite string

// The values of SameSite; empty leaves the attribute out.
const (
	SameSiteNone   SameSite = "none"
	SameSiteLax    SameSite = "lax"
	SameSiteStrict SameSite = "strict"
)
