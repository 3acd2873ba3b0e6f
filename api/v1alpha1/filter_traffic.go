package v1alpha1

// RateLimit lets a number of requests through in a time.
type RateLimit struct {
	Requests int64       `json:"requests" required:"true" minimum:"1" description:"Average number of requests that are allowed in each period."`
	Period   Duration    `json:"period,omitempty" default:"1s" description:"The period, from 1ms to 24h."`
	Burst    int64       `json:"burst,omitempty" minimum:"1" description:"Maximum number of requests at once. Defaults to requests."`
	Key      *RequestKey `json:"key,omitempty" description:"Attribute by which requests are counted. Defaults to the client address."`
}

// InFlight bounds the requests that run at one time.
type InFlight struct {
	Max int64       `json:"max" required:"true" minimum:"1" description:"Maximum number of concurrent requests."`
	Key *RequestKey `json:"key,omitempty" description:"Attribute by which requests are counted. By default, all requests are counted together."`
}

// BodyLimit responds with 413 to requests with a larger body.
type BodyLimit struct {
	MaxBytes Size `json:"maxBytes" required:"true" description:"Maximum size of the body."`
}

// Buffering reads a body in full before it is passed on.
type Buffering struct {
	MaxRequestBytes  Size `json:"maxRequestBytes,omitempty" description:"Buffers request bodies up to this size. By default, they are not buffered."`
	MaxResponseBytes Size `json:"maxResponseBytes,omitempty" description:"Buffers response bodies up to this size. By default, they are not buffered."`
}

// Compression compresses responses for clients that accept it.
type Compression struct {
	Encodings           []string `json:"encodings,omitempty" maxItems:"3" enum:"gzip,br,zstd" description:"Encodings in order of preference. Defaults to those of the edge."`
	MinBytes            Size     `json:"minBytes,omitempty" description:"Minimum size of a response that is compressed. Defaults to that of the edge."`
	ContentTypes        []string `json:"contentTypes,omitempty" maxItems:"64" description:"Content types that are compressed. Defaults to those that usually compress well."`
	ExcludeContentTypes []string `json:"excludeContentTypes,omitempty" maxItems:"64" description:"Content types that are not compressed. They take precedence over contentTypes."`
}

// Retry sends a request again.
type Retry struct {
	Attempts       int32    `json:"attempts" required:"true" minimum:"2" maximum:"10" description:"Maximum number of attempts, including the first."`
	On             []string `json:"on,omitempty" maxItems:"4" enum:"connect,reset,timeout,unavailable" description:"Failures that are retried. Defaults to connect, for which nothing was sent yet."`
	UnsafeMethods  bool     `json:"unsafeMethods,omitempty" description:"Also retries methods that are not idempotent, such as POST."`
	AttemptTimeout Duration `json:"attemptTimeout,omitempty" description:"Timeout of each attempt. Defaults to the timeouts of the rule."`
	Backoff        Duration `json:"backoff,omitempty" description:"Backoff before the second attempt; it doubles with each further one."`
}

// CircuitBreaker stops sending to backends that mostly fail.
type CircuitBreaker struct {
	FailurePercent int32    `json:"failurePercent" required:"true" minimum:"1" maximum:"100" description:"Percentage of failed requests in the window that opens the circuit breaker."`
	Window         Duration `json:"window,omitempty" default:"10s" description:"Time window in which failures are counted."`
	MinRequests    int64    `json:"minRequests,omitempty" default:"20" minimum:"1" description:"Minimum number of requests in the window before the circuit breaker can open."`
	Open           Duration `json:"open,omitempty" default:"10s" description:"How long the circuit breaker stays open. Then it lets one request through as a probe."`
}

// Mirror sends a copy of requests to another Service.
type Mirror struct {
	Service      ServiceRef `json:"service" required:"true" description:"The Service that gets the copies."`
	Percent      int32      `json:"percent,omitempty" default:"100" minimum:"1" maximum:"100" description:"Percentage of requests that are copied."`
	MaxBodyBytes Size       `json:"maxBodyBytes,omitempty" description:"Maximum size of a body that is copied; requests with a larger body are not mirrored. By default, only requests without a body are mirrored."`
}
