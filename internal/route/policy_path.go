package route

// RedirectScheme redirects to the same URL with another scheme.
type RedirectScheme struct {
	Scheme Scheme `json:"scheme"`
	// Port is part of the new URL; 0 is the port that the scheme implies.
	Port uint16 `json:"port,omitempty"`
	// Status is 301, 302, 303, 307 or 308. 0 means 307: it keeps the method, and
	// browsers do not cache it.
	Status int `json:"status,omitempty"`
	// TrimSlash removes a slash at the end of the URL, as ingress-nginx does.
	TrimSlash bool `json:"trimSlash,omitempty"`
}

// RedirectRegexp redirects to a URL that is made from the one of the request.
type RedirectRegexp struct {
	// Regexp is applied to the whole URL, with scheme and host.
	Regexp string `json:"regexp"`
	// Replacement is the new URL; ${1} stands for the first group.
	Replacement string `json:"replacement"`
	// Status is as in RedirectScheme.
	Status int `json:"status,omitempty"`
}

// AddPrefix puts a prefix before the path.
type AddPrefix struct {
	Prefix string `json:"prefix"`
}

// StripPrefix removes the first of the prefixes that fits, element by element.
type StripPrefix struct {
	Prefixes []string `json:"prefixes,omitempty"`
	// ForwardPrefix passes the removed prefix on as X-Forwarded-Prefix.
	ForwardPrefix bool `json:"forwardPrefix,omitempty"`
}

// StripPrefixRegexp removes the match of the first expression that matches the
// start of the path.
type StripPrefixRegexp struct {
	Regexps       []string `json:"regexps,omitempty"`
	ForwardPrefix bool     `json:"forwardPrefix,omitempty"`
}

// ReplacePath replaces the path.
type ReplacePath struct {
	Path string `json:"path"`
}

// ReplacePathRegexp rewrites the path where the expression fits.
type ReplacePathRegexp struct {
	Regexp string `json:"regexp"`
	// Replacement is the new path; ${1} stands for the first group.
	Replacement string `json:"replacement"`
}

// HeaderValue is a header field.
type HeaderValue struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// RequestHeaders changes the headers that the backend gets: first Remove, then
// Set, then Add.
type RequestHeaders struct {
	Set    []HeaderValue `json:"set,omitempty"`
	Add    []HeaderValue `json:"add,omitempty"`
	Remove []string      `json:"remove,omitempty"`
}

// ResponseHeaders changes the headers that the client gets, in the same way.
type ResponseHeaders struct {
	Set    []HeaderValue `json:"set,omitempty"`
	Add    []HeaderValue `json:"add,omitempty"`
	Remove []string      `json:"remove,omitempty"`
}

// CORS responds to preflight requests and marks responses for other origins.
type CORS struct {
	// AllowOrigins are origins such as https://example.com, or * for all.
	AllowOrigins []string `json:"allowOrigins,omitempty"`
	// AllowOriginRegexps must fit the whole origin.
	AllowOriginRegexps []string `json:"allowOriginRegexps,omitempty"`
	AllowMethods       []string `json:"allowMethods,omitempty"`
	AllowHeaders       []string `json:"allowHeaders,omitempty"`
	ExposeHeaders      []string `json:"exposeHeaders,omitempty"`
	// AllowCredentials lets scripts use cookies. It cannot go with the origin *.
	AllowCredentials bool `json:"allowCredentials,omitempty"`
	// MaxAge is how long a browser caches a preflight.
	MaxAge Duration `json:"maxAge,omitzero"`
}

// ErrorPages lets a backend write the page for an error.
type ErrorPages struct {
	// Statuses are the errors that are replaced.
	Statuses []StatusRange `json:"statuses,omitempty"`
	Backend  BackendID     `json:"backend"`
	// Path is the path of the page; {status} in it stands for the status of the
	// error.
	Path string `json:"path"`
	// Headers are sent along.
	Headers []HeaderValue `json:"headers,omitempty"`
}

// StatusRange is a range of HTTP statuses; both ends are in it.
type StatusRange struct {
	From int `json:"from"`
	To   int `json:"to"`
}
