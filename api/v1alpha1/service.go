package v1alpha1

// StickyCookie keeps a client at the endpoint that it got first. It is written
// in an annotation of a Service.
type StickyCookie struct {
	Name     string   `json:"name,omitempty" description:"Name of the cookie. Without it, the edge makes one."`
	Path     string   `json:"path,omitempty" default:"/" description:"Path of the cookie."`
	Domain   string   `json:"domain,omitempty" description:"Domain of the cookie."`
	Secure   bool     `json:"secure,omitempty" description:"Keeps the cookie from plain requests."`
	HTTPOnly bool     `json:"httpOnly,omitempty" description:"Keeps the cookie from scripts."`
	SameSite string   `json:"sameSite,omitempty" enum:"none,lax,strict" description:"Which requests from other sites carry the cookie; none needs secure."`
	MaxAge   Duration `json:"maxAge,omitempty" description:"How long the client keeps the cookie. Without it, until the browser closes."`
}

// HealthCheck probes every endpoint at an interval. It is written in an
// annotation of a Service.
type HealthCheck struct {
	Mode      string        `json:"mode,omitempty" enum:"http,tcp,grpc" description:"How endpoints are asked. Without it http."`
	Path      string        `json:"path,omitempty" pattern:"^/" maxLength:"4096" description:"The path that is asked for, in the mode http. Without it /."`
	Service   string        `json:"service,omitempty" description:"The gRPC service that is asked about, in the mode grpc. Without it, the server as a whole."`
	Host      string        `json:"host,omitempty" description:"Host header of the question. Without it, the address of the endpoint."`
	Port      int32         `json:"port,omitempty" minimum:"1" maximum:"65535" description:"The port that is asked. Without it, the endpoint's own."`
	Interval  Duration      `json:"interval,omitempty" description:"The time between two checks, from 1s to 1h. Without it 10s."`
	Timeout   Duration      `json:"timeout,omitempty" description:"Bounds one check. Without it 3s, or the interval if that is less."`
	Healthy   int32         `json:"healthy,omitempty" minimum:"1" maximum:"100" description:"How many checks in a row have to pass before an endpoint gets requests again. Without it 1."`
	Unhealthy int32         `json:"unhealthy,omitempty" minimum:"1" maximum:"100" description:"How many checks in a row have to fail before an endpoint gets no more requests. Without it 2."`
	Statuses  []StatusRange `json:"statuses,omitempty" maxItems:"64" description:"The answers that pass, such as 200-299, in the mode http. Without it 200-399."`
}
