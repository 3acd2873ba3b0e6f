package route

// RateLimit lets a number of requests through in a time, and refuses the rest.
type RateLimit struct {
	// Requests are allowed in each Period, on average.
	Requests int64    `json:"requests"`
	Period   Duration `json:"period"`
	// Burst are allowed at once; 0 means as many as Requests.
	Burst int64 `json:"burst,omitempty"`
	// Key is what requests are counted by; the client when it is empty.
	Key HashKey `json:"key,omitzero"`
	// Client selects the address of the client; without it, and where it selects none,
	// the entry point does.
	Client *ClientSource `json:"client,omitempty"`
	// Status is that of a refusal; 0 means 429.
	Status int `json:"status,omitempty"`
	// PerReplica counts on each replica of the edge alone. Without it the limit holds
	// for all replicas together, if they exchange limits.
	PerReplica bool `json:"perReplica,omitempty"`
}

// InFlight bounds the requests (or TCP connections) that run at one time, and
// refuses the rest.
type InFlight struct {
	Max int64 `json:"max"`
	// Key is what requests are counted by; all together when it is empty.
	Key HashKey `json:"key,omitzero"`
	// Client is as in RateLimit.
	Client *ClientSource `json:"client,omitempty"`
	// Status is that of a refused request; 0 means 429.
	Status int `json:"status,omitempty"`
	// PerReplica is as in RateLimit.
	PerReplica bool `json:"perReplica,omitempty"`
}

// BodyLimit responds with 413 to requests with a larger body.
type BodyLimit struct {
	MaxBytes int64 `json:"maxBytes"`
}

// Buffering reads a body in full before it passes it on. A body larger than the
// limit results in 413, or 502 where it is the backend's.
type Buffering struct {
	// MaxRequestBytes buffers requests up to this size; 0 streams them.
	MaxRequestBytes int64 `json:"maxRequestBytes,omitempty"`
	// MaxResponseBytes buffers responses up to this size; 0 streams them.
	MaxResponseBytes int64 `json:"maxResponseBytes,omitempty"`
}

// Compression compresses responses for clients that accept it.
type Compression struct {
	// Encodings are offered in this order; none means the edge's default.
	Encodings []Encoding `json:"encodings,omitempty"`
	// MinBytes is the smallest response that is compressed. 0 means the edge's
	// default.
	MinBytes int64 `json:"minBytes,omitempty"`
	// ContentTypes are compressed; none means those that usually shrink.
	ContentTypes []string `json:"contentTypes,omitempty"`
	// ExcludeContentTypes are not compressed, even if they are in ContentTypes.
	ExcludeContentTypes []string `json:"excludeContentTypes,omitempty"`
}

// Encoding is a content coding.
type Encoding string

// The encodings of a compressed response.
const (
	EncodingGzip   Encoding = "gzip"
	EncodingBrotli Encoding = "br"
	EncodingZstd   Encoding = "zstd"
)

// Retry sends a request again, to another endpoint where there is one. It
// never repeats a request whose body is already on its way, unless Buffering has
// it in memory.
type Retry struct {
	// Attempts is how often a request is sent at most, the first time included.
	Attempts int `json:"attempts"`
	// On are the failures that it helps against; none means connect only.
	On []RetryCondition `json:"on,omitempty"`
	// Statuses are those of responses that it helps against, besides the ones that
	// On implies.
	Statuses []int `json:"statuses,omitempty"`
	// UnsafeMethods repeats POST and the like too.
	UnsafeMethods bool `json:"unsafeMethods,omitempty"`
	// AttemptTimeout bounds each attempt; 0 leaves it to the rule's timeouts.
	AttemptTimeout Duration `json:"attemptTimeout,omitzero"`
	// Backoff is the wait before the second attempt; it doubles from there. Each wait
	// has up to half of it more, at random.
	Backoff Duration `json:"backoff,omitzero"`
}

// RetryCondition is a failure.
type RetryCondition string

// The failures that a retry can help against.
const (
	// RetryConnect: there was no connection, so nothing was sent.
	RetryConnect RetryCondition = "connect"
	// RetryReset: the connection ended before the head of the response.
	RetryReset RetryCondition = "reset"
	// RetryTimeout: the head of the response did not come in time.
	RetryTimeout RetryCondition = "timeout"
	// RetryUnavailable: the status was 502, 503 or 504.
	RetryUnavailable RetryCondition = "unavailable"
)

// CircuitBreaker stops sending to backends that mostly fail, and responds with 503
// for a while.
type CircuitBreaker struct {
	// FailurePercent of the requests in Window open the breaker.
	FailurePercent int      `json:"failurePercent"`
	Window         Duration `json:"window"`
	// MinRequests in Window are needed to judge.
	MinRequests int64 `json:"minRequests,omitempty"`
	// Open is how long nothing is sent. Then one request probes the backend.
	Open Duration `json:"open"`
}

// Mirror sends a copy of requests to another backend and drops its responses.
type Mirror struct {
	Backend BackendID `json:"backend"`
	// Percent of the requests are copied. With Of it is not of a hundred requests,
	// but of so many.
	Percent int `json:"percent"`
	Of      int `json:"of,omitempty"`
	// MaxBodyBytes bounds the body of a copy. A request with a larger one is
	// not copied; 0 copies only requests without a body.
	MaxBodyBytes int64 `json:"maxBodyBytes,omitempty"`
}
