package route

import "net/netip"

// Backend is a set of endpoints and their transport. One without endpoints is
// valid: it responds with 503.
type Backend struct {
	ID        BackendID  `json:"id"`
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	Transport Transport  `json:"transport,omitzero"`
	Balancing Balancing  `json:"balancing,omitzero"`
	// Sticky keeps a client at the endpoint that it got first.
	Sticky *StickyCookie `json:"sticky,omitempty"`
	// HealthCheck probes the endpoints; without it, only the results of requests
	// count.
	HealthCheck *HealthCheck `json:"healthCheck,omitempty"`
	// MaxInFlight bounds the requests that run at a time on all endpoints
	// together, for each replica of the edge. Requests over it get 503 with
	// Retry-After. 0 is no bound.
	MaxInFlight int64 `json:"maxInFlight,omitempty"`
	// MaxInFlightPerEndpoint bounds those on one endpoint. Requests over it go to
	// another; when all are full they get 503 too. 0 means the edge's default.
	MaxInFlightPerEndpoint int64 `json:"maxInFlightPerEndpoint,omitempty"`
	// Release divides the requests between two revisions of the workload.
	Release *Release `json:"release,omitempty"`
}

// Endpoint is one address of a backend: an IP address, or a host name that the
// edge resolves.
type Endpoint struct {
	Address netip.AddrPort `json:"address,omitzero"`
	Host    string         `json:"host,omitempty"`
	// Port belongs to Host.
	Port uint16 `json:"port,omitempty"`
	// Weight is as in BackendRef: all 0 is equal.
	Weight uint32 `json:"weight,omitempty"`
	// Zone is where the endpoint runs, for balancing that stays near.
	Zone string `json:"zone,omitempty"`
	// State is ready when it is empty.
	State EndpointState `json:"state,omitempty"`
	// Revision is stable or canary, for a backend with a release.
	Revision Revision `json:"revision,omitempty"`
}

// EndpointState selects the requests that an endpoint may get.
type EndpointState string

// The states of an endpoint.
const (
	// EndpointReady takes every request.
	EndpointReady EndpointState = "ready"
	// EndpointDraining takes only requests of clients that stick to it.
	EndpointDraining EndpointState = "draining"
)

// Transport is how requests travel to the endpoints.
type Transport struct {
	// Protocol is http1 when it is empty.
	Protocol Protocol `json:"protocol,omitempty"`
	// TLS holds the settings of a protocol over TLS. Without it, the endpoint
	// is verified against the system's authorities under its own name.
	TLS *UpstreamTLS `json:"tls,omitempty"`
	// Host is sent as the Host header. When it is empty, the client's is.
	Host string `json:"host,omitempty"`
	// HostOfEndpoint sends the endpoint's own address as the Host header.
	HostOfEndpoint bool `json:"hostOfEndpoint,omitempty"`
}

// Protocol is what the endpoints speak.
type Protocol string

// The protocols of an endpoint.
const (
	// ProtocolHTTP1 is HTTP/1.1 without encryption.
	ProtocolHTTP1 Protocol = "http1"
	// ProtocolH2C is HTTP/2 without encryption, with prior knowledge.
	ProtocolH2C Protocol = "h2c"
	// ProtocolTLS is HTTP/1.1 over TLS. It is the one that carries WebSockets.
	ProtocolTLS Protocol = "tls"
	// ProtocolH2 is HTTP/2 over TLS. An endpoint that does not speak it gets no
	// request.
	ProtocolH2 Protocol = "h2"
	// ProtocolALPN is HTTP/2 or HTTP/1.1 over TLS, as the endpoint chooses.
	ProtocolALPN Protocol = "alpn"
)

// Encrypted reports whether the protocol runs over TLS.
func (p Protocol) Encrypted() bool {
	return p == ProtocolTLS || p == ProtocolH2 || p == ProtocolALPN
}

// HTTP2 reports whether requests may travel by HTTP/2.
func (p Protocol) HTTP2() bool {
	return p == ProtocolH2C || p == ProtocolH2 || p == ProtocolALPN
}

// UpstreamTLS is how endpoint and edge authenticate each other. A reference to an
// element that is not in the table makes the backend respond with 503; it never
// disables verification.
type UpstreamTLS struct {
	// ServerName is sent as SNI and verified. When it is empty it is the
	// endpoint's host name; an endpoint that is an IP address then has none.
	ServerName string `json:"serverName,omitempty"`
	// Authority vouches for the endpoints; none means the system's.
	Authority AuthorityID `json:"authority,omitzero"`
	// SubjectAltNames are host names and URIs, separated by spaces. The certificate of
	// an endpoint has to have one of them, and not ServerName then. It is one text so
	// that settings are compared as a whole.
	SubjectAltNames string `json:"subjectAltNames,omitempty"`
	// SkipVerify accepts any certificate. It cannot go with an authority.
	SkipVerify bool `json:"skipVerify,omitempty"`
	// Certificate is sent to endpoints that request one.
	Certificate CertificateID `json:"certificate,omitzero"`
}

// Balancing is how an endpoint is chosen for a request.
type Balancing struct {
	// Method is leastRequests when it is empty.
	Method BalanceMethod `json:"method,omitempty"`
	// Hash is what the method hash distinguishes requests by.
	Hash HashKey `json:"hash,omitzero"`
	// PreferZone keeps requests in the edge's own zone while it has enough
	// endpoints.
	PreferZone bool `json:"preferZone,omitempty"`
	// SlowStart is the time in which a new endpoint comes to its full share.
	SlowStart Duration `json:"slowStart,omitzero"`
}

// BalanceMethod is a way to choose an endpoint.
type BalanceMethod string

// The ways to choose an endpoint.
const (
	// BalanceLeastRequests takes the less busy of two random endpoints.
	BalanceLeastRequests BalanceMethod = "leastRequests"
	// BalanceRoundRobin takes one after the other, by weight.
	BalanceRoundRobin BalanceMethod = "roundRobin"
	// BalanceLeastTime takes the quicker of two random endpoints.
	BalanceLeastTime BalanceMethod = "leastTime"
	// BalanceHash takes the same endpoint for the same key.
	BalanceHash BalanceMethod = "hash"
)

// HashKey is the part of a request that a hash is made of.
type HashKey struct {
	By KeySource `json:"by,omitempty"`
	// Name is the name of the header or cookie.
	Name string `json:"name,omitempty"`
}

// KeySource is where a key comes from.
type KeySource string

// The sources of a key.
const (
	// KeyAll gives all requests the same key.
	KeyAll KeySource = "all"
	// KeyClient is the address of the client.
	KeyClient KeySource = "client"
	// KeyHost is the host of the request.
	KeyHost KeySource = "host"
	// KeyPath is the path of the request.
	KeyPath KeySource = "path"
	// KeyHeader is the value of a header.
	KeyHeader KeySource = "header"
	// KeyCookie is the value of a cookie.
	KeyCookie KeySource = "cookie"
)
