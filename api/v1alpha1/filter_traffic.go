package v1alpha1

// RateLimit lets a number of requests through in a time.
type RateLimit struct {
	Requests int64       `json:"requests" required:"true" minimum:"1" description:"How many requests are let through in each period, on average."`
	Period   Duration    `json:"period,omitempty" default:"1s" description:"The period, from 1ms to 24h."`
	Burst    int64       `json:"burst,omitempty" minimum:"1" description:"How many are let through at once. Without it, as many as requests."`
	Key      *RequestKey `json:"key,omitempty" description:"What requests are counted by. Without it, the address of the client."`
}

// InFlight bounds the requests that run at one time.
type InFlight struct {
	Max int64       `json:"max" required:"true" minimum:"1" description:"How many requests may run."`
	Key *RequestKey `json:"key,omitempty" description:"What requests are counted by. Without it, all together."`
}

// BodyLimit responds with 413 to requests with a larger body.
type BodyLimit struct {
	MaxBytes Size `json:"maxBytes" required:"true" description:"The largest body."`
}

// Buffering reads a body in full before it is passed on.
type Buffering struct {
	MaxRequestBytes  Size `json:"maxRequestBytes,omitempty" description:"Reads the bodies of requests up to this size. Without it they are not buffered."`
	MaxResponseBytes Size `json:"maxResponseBytes,omitempty" description:"Reads the bodies of answers up to this size. Without it they are not buffered."`
}

// Compression compresses responses for clients that accept it.
type Compression struct {
	Encodings           []string `json:"encodings,omitempty" maxItems:"3" enum:"gzip,br,zstd" description:"The encodings, the best first. Without it, the default of the edge."`
	MinBytes            Size     `json:"minBytes,omitempty" description:"The smallest answer that is compressed. Without it, the default of the edge."`
	ContentTypes        []string `json:"contentTypes,omitempty" maxItems:"64" description:"Types of content that are compressed. Without it, those that usually shrink."`
	ExcludeContentTypes []string `json:"excludeContentTypes,omitempty" maxItems:"64" description:"Types of content that are not compressed, whatever contentTypes says."`
}

// Retry sends a request again.
type Retry struct {
	Attempts       int32    `json:"attempts" required:"true" minimum:"2" maximum:"10" description:"How often a request is sent at most, the first time included."`
	On             []string `json:"on,omitempty" maxItems:"4" enum:"connect,reset,timeout,unavailable" description:"Failures that are tried again. Without it only connect, where nothing was sent yet."`
	UnsafeMethods  bool     `json:"unsafeMethods,omitempty" description:"Repeats POST and the like too."`
	AttemptTimeout Duration `json:"attemptTimeout,omitempty" description:"Bounds each attempt. Without it, the timeouts of the rule do."`
	Backoff        Duration `json:"backoff,omitempty" description:"The wait before the second attempt; it doubles from there."`
}

// CircuitBreaker stops sending to backends that mostly fail.
type CircuitBreaker struct {
	FailurePercent int32    `json:"failurePercent" required:"true" minimum:"1" maximum:"100" description:"The share of failed requests in the window that opens the breaker."`
	Window         Duration `json:"window,omitempty" default:"10s" description:"The time over which failures are counted."`
	MinRequests    int64    `json:"minRequests,omitempty" default:"20" minimum:"1" description:"How many requests in the window are needed to judge."`
	Open           Duration `json:"open,omitempty" default:"10s" description:"How long nothing is sent. Then one request is tried."`
}

// Mirror sends a copy of requests to another Service.
type Mirror struct {
	Service      ServiceRef `json:"service" required:"true" description:"The Service that gets the copies."`
	Percent      int32      `json:"percent,omitempty" default:"100" minimum:"1" maximum:"100" description:"The share of requests that are copied."`
	MaxBodyBytes Size       `json:"maxBodyBytes,omitempty" description:"The largest body that is copied; a request with a larger one is not. Without it, only requests without a body are."`
}
