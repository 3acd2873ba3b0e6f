package config

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/slipway/internal/secret"
)

// AccessLog writes a line per request. A nil one is disabled.
type AccessLog struct {
	FilePath      string           `yaml:"filePath" description:"File that lines are appended to; SIGHUP reopens it, for log rotation. When empty, they go to standard output."`
	Format        string           `yaml:"format" description:"Format of a line. common is the common log format with referrer, user agent, number of the request, rule, endpoint and time in milliseconds; genericCLF ends after the user agent; json is one object."`
	BufferingSize int              `yaml:"bufferingSize" description:"Maximum number of lines that wait to be written. Further lines are dropped and counted, because traffic never waits for the log."`
	FlushInterval Duration         `yaml:"flushInterval" description:"Maximum time that a line waits to be written."`
	Filters       AccessLogFilters `yaml:"filters"`
	Fields        AccessLogFields  `yaml:"fields"`
}

// AccessLogFilters select requests. One filter that matches is enough; without
// any, all requests are logged.
type AccessLogFilters struct {
	StatusCodes   []string `yaml:"statusCodes" description:"Log requests with these statuses, such as 404 or 500-599. 0 means a client that disconnected before a response. Without filters, every request is logged; with several filters, one match is enough."`
	RetryAttempts bool     `yaml:"retryAttempts" description:"Log requests that were retried."`
	MinDuration   Duration `yaml:"minDuration" description:"Log requests that took longer than this. 0s disables this filter."`
}

// AccessLogFields select the fields of a line.
type AccessLogFields struct {
	DefaultMode string            `yaml:"defaultMode" description:"Mode of fields that names does not list: keep or drop."`
	Names       map[string]string `yaml:"names" description:"Mode of one field, such as ClientUsername or RequestQuery: keep or drop. Names are case-insensitive."`
	Headers     AccessLogHeaders  `yaml:"headers"`
}

// AccessLogHeaders select the headers of a line. They are dropped by default,
// because headers carry credentials.
type AccessLogHeaders struct {
	DefaultMode string            `yaml:"defaultMode" description:"Mode of headers that names does not list: keep, drop or redact. The values of headers with credentials, such as Authorization, Cookie and Set-Cookie, are never logged: keep redacts them."`
	Names       map[string]string `yaml:"names" description:"Mode of one header, such as User-Agent: keep, drop or redact. Names are case-insensitive."`
}

// Tracing exports spans to an OpenTelemetry collector. A nil one is disabled.
type Tracing struct {
	ServiceName        string   `yaml:"serviceName" description:"Name of this edge in traces."`
	ResourceAttributes []string `yaml:"resourceAttributes" description:"Additional attributes of this edge, as name=value: a list in a file, commas between them elsewhere."`
	SampleRate         string   `yaml:"sampleRate" description:"Fraction of requests that are traced, from 0 to 1. A request that continues a trace is traced if that trace is sampled."`
	ContinueFrom       string   `yaml:"continueFrom" description:"Clients whose traceparent header is continued: trusted (proxies in forwardedHeaders.trustedIPs), everyone or nobody. Other requests start a new trace, because a client could otherwise decide which requests are traced."`
	OTLP               OTLP     `yaml:"otlp"`
}

// OTLP is the protocol of the export.
type OTLP struct {
	HTTP OTLPHTTP `yaml:"http"`
}

// OTLPHTTP is a collector that receives OTLP over HTTP.
type OTLPHTTP struct {
	Endpoint string      `yaml:"endpoint" description:"URL of the collector, http or https."`
	Headers  secret.Text `yaml:"headers" description:"Headers for the collector, such as its API key, as name=value with commas between them. Other users of a machine can see flags: prefer the file or the environment."`
	TLS      OTLPTLS     `yaml:"tls"`
}

// OTLPTLS configures TLS to the collector.
type OTLPTLS struct {
	CA                 string `yaml:"ca" description:"PEM file with the CA certificates that verify the collector. When empty, they are the system's."`
	Cert               string `yaml:"cert" description:"PEM file with the client certificate that Slipway presents to the collector. It requires a key."`
	Key                string `yaml:"key" description:"PEM file with the key of the certificate."`
	InsecureSkipVerify bool   `yaml:"insecureSkipVerify" description:"Do not verify the certificate of the endpoint."`
}

// LastGood is where the table that was served last is saved.
type LastGood struct {
	Dir string `yaml:"dir" description:"Directory in which the edge keeps its last-good table, so that it can serve the routes after a restart while their source is unavailable. The file contains private keys: the directory must belong to the edge alone, and is created if it does not exist. When empty, the edge keeps no table."`
}

// SetDefaults sets every option to its default. The decoder calls it by this
// name when an option enables the log.
func (a *AccessLog) SetDefaults() {
	*a = AccessLog{
		Format: "common", BufferingSize: 10000, FlushInterval: Duration(250e6),
		Fields: AccessLogFields{DefaultMode: "keep", Headers: AccessLogHeaders{DefaultMode: "drop"}},
	}
}

// SetDefaults sets every option to its default. The decoder calls it by this
// name when an option enables tracing.
func (t *Tracing) SetDefaults() {
	*t = Tracing{
		ServiceName: "slipway", SampleRate: "1", ContinueFrom: "trusted",
		OTLP: OTLP{HTTP: OTLPHTTP{Endpoint: "https://localhost:4318/v1/traces"}},
	}
}

// Rate returns SampleRate as a number. The options must be valid: a text that
// is not a number yields 0.
func (t *Tracing) Rate() float64 {
	rate, _ := strconv.ParseFloat(t.SampleRate, 64)
	return rate
}

// observed checks the options of the access log and of tracing, if they are
// enabled.
func (c *checker) observed(e *Edge) {
	if e.AccessLog != nil {
		c.accessLog(e.AccessLog)
	}
	if e.Tracing != nil {
		c.tracing(e.Tracing)
	}
}

// accessLog checks the options of the access log. The queue of lines takes
// memory, so its size has a bound.
func (c *checker) accessLog(a *AccessLog) {
	const prefix = "accessLog."
	c.oneOf(prefix+"format", a.Format, "common", "genericCLF", "json")
	c.within(prefix+"bufferingSize", a.BufferingSize, 1, 1e6)
	c.above(prefix+"flushInterval", a.FlushInterval)
	c.notNegative(prefix+"filters.minDuration", a.Filters.MinDuration)
	for _, text := range a.Filters.StatusCodes {
		if !validStatusRange(text) {
			c.add(prefix+"filters.statusCodes", "has %s: write a status such as 404 or a range such as 500-599", quoted(text))
		}
	}
	c.oneOf(prefix+"fields.defaultMode", a.Fields.DefaultMode, "keep", "drop")
	c.modes(prefix+"fields.names.", a.Fields.Names, "keep", "drop")
	c.oneOf(prefix+"fields.headers.defaultMode", a.Fields.Headers.DefaultMode, "keep", "drop", "redact")
	c.modes(prefix+"fields.headers.names.", a.Fields.Headers.Names, "keep", "drop", "redact")
}

// modes checks the modes of fields or headers, sorted by name, so that messages
// are stable.
func (c *checker) modes(prefix string, modes map[string]string, allowed ...string) {
	for _, name := range slices.Sorted(maps.Keys(modes)) {
		c.oneOf(prefix+name, modes[name], allowed...)
	}
}

// validStatusRange reports whether a text is a status such as 500, or a range
// such as 500-599. 0 is allowed: it selects clients that left before a
// response.
func validStatusRange(text string) bool {
	first, last, ranged := strings.Cut(text, "-")
	if !ranged {
		last = first
	}
	from, errFrom := strconv.Atoi(first)
	to, errTo := strconv.Atoi(last)
	return errFrom == nil && errTo == nil && from >= 0 && from <= to && to <= 599
}

// tracing checks the options of tracing. It does not contact the collector.
func (c *checker) tracing(t *Tracing) {
	const prefix = "tracing."
	if t.ServiceName == "" {
		c.add(prefix+"serviceName", "is missing: name this edge, such as slipway")
	}
	for _, pair := range t.ResourceAttributes {
		if name, _, found := strings.Cut(pair, "="); !found || name == "" {
			c.add(prefix+"resourceAttributes", "has %s: write it as name=value", quoted(pair))
		}
	}
	// The negated form also rejects NaN.
	if rate, err := strconv.ParseFloat(t.SampleRate, 64); err != nil || !(rate >= 0 && rate <= 1) {
		c.add(prefix+"sampleRate", "is %s: choose a number from 0 to 1", quoted(t.SampleRate))
	}
	c.oneOf(prefix+"continueFrom", t.ContinueFrom, "trusted", "everyone", "nobody")
	c.collector(prefix+"otlp.http.", t.OTLP.HTTP)
}

// collector checks the collector. Errors quote neither the URL, which may
// contain a password, nor the headers.
func (c *checker) collector(prefix string, h OTLPHTTP) {
	u, err := url.Parse(h.Endpoint)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "":
		c.add(prefix+"endpoint", "is not a URL such as https://collector.example.com:4318")
	case u.User != nil:
		c.add(prefix+"endpoint", "has a user name or password in it: take it out and use %sheaders", prefix)
	case u.RawQuery != "" || u.Fragment != "":
		c.add(prefix+"endpoint", "has a part after ? or #: take it out")
	// TLS options for a plain URL would be ignored silently.
	case u.Scheme == "http" && h.TLS != (OTLPTLS{}):
		c.add(prefix+"tls", "is set, but the endpoint is not encrypted: let it start with https://")
	}
	if h.Headers.Reveal() == secret.Redacted {
		c.add(prefix+"headers", "is the text that stands for hidden headers in printed options: set the headers themselves")
	} else if !h.Headers.IsZero() {
		// One message is enough: it cannot quote the pair, which may be a
		// credential.
		for pair := range strings.SplitSeq(h.Headers.Reveal(), ",") {
			if name, _, found := strings.Cut(pair, "="); !found || strings.TrimSpace(name) == "" {
				c.add(prefix+"headers", "has something that is not of the form name=value")
				break
			}
		}
	}
	if (h.TLS.Cert == "") != (h.TLS.Key == "") {
		c.add(prefix+"tls", "has one of cert and key: give both or neither")
	}
}
