package v1alpha1

// StickyCookie keeps a client at the endpoint that it got first. It is written
// in an annotation of a Service.
type StickyCookie struct {
	Name     string   `json:"name,omitempty" description:"Name of the cookie. By default, the edge generates one."`
	Path     string   `json:"path,omitempty" default:"/" description:"Path of the cookie."`
	Domain   string   `json:"domain,omitempty" description:"Domain of the cookie."`
	Secure   bool     `json:"secure,omitempty" description:"Restricts the cookie to requests over TLS."`
	HTTPOnly bool     `json:"httpOnly,omitempty" description:"Hides the cookie from scripts."`
	SameSite string   `json:"sameSite,omitempty" enum:"none,lax,strict" description:"Which requests from other sites carry the cookie; none requires secure."`
	MaxAge   Duration `json:"maxAge,omitempty" description:"How long the client keeps the cookie. By default, until the browser closes."`
}

// HealthCheck probes every endpoint at an interval. It is written in an
// annotation of a Service.
type HealthCheck struct {
	Mode      string        `json:"mode,omitempty" enum:"http,tcp,grpc" description:"Protocol of the checks. Defaults to http."`
	Path      string        `json:"path,omitempty" pattern:"^/" maxLength:"4096" description:"Path of the request, in the mode http. Defaults to /."`
	Service   string        `json:"service,omitempty" description:"The gRPC service that is checked, in the mode grpc. Defaults to the server as a whole."`
	Host      string        `json:"host,omitempty" description:"Host header of the request. Defaults to the address of the endpoint."`
	Port      int32         `json:"port,omitempty" minimum:"1" maximum:"65535" description:"Port of the checks. Defaults to the port of the endpoint."`
	Interval  Duration      `json:"interval,omitempty" description:"Interval between two checks, from 1s to 1h. Defaults to 10s."`
	Timeout   Duration      `json:"timeout,omitempty" description:"Timeout of one check. Defaults to 3s, or to the interval if that is shorter."`
	Healthy   int32         `json:"healthy,omitempty" minimum:"1" maximum:"100" description:"Number of consecutive successful checks before an endpoint gets requests again. Defaults to 1."`
	Unhealthy int32         `json:"unhealthy,omitempty" minimum:"1" maximum:"100" description:"Number of consecutive failed checks before an endpoint gets no more requests. Defaults to 2."`
	Statuses  []StatusRange `json:"statuses,omitempty" maxItems:"64" description:"Response statuses of a successful check, such as 200-299, in the mode http. Defaults to 200-399."`
}
