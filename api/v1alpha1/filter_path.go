package v1alpha1

// RedirectScheme sends clients to the same place under another scheme.
type RedirectScheme struct {
	Scheme string `json:"scheme" required:"true" enum:"http,https" description:"The scheme to redirect to."`
	Port   int32  `json:"port,omitempty" minimum:"1" maximum:"65535" description:"Port of the redirect location. Defaults to the port of the scheme."`
	Status int32  `json:"status,omitempty" enum:"301,302,303,307,308" description:"Status of the redirect. Defaults to 307, which keeps the method and which browsers do not cache."`
}

// RedirectRegexp redirects clients to a URL that is made from the requested
// one.
type RedirectRegexp struct {
	Regexp      string `json:"regexp" required:"true" maxLength:"1024" description:"RE2 expression that matches the whole URL, with scheme and host."`
	Replacement string `json:"replacement" required:"true" maxLength:"4096" description:"The new URL; ${1} stands for the first group."`
	Status      int32  `json:"status,omitempty" enum:"301,302,303,307,308" description:"Status of the redirect. Defaults to 307."`
}

// AddPrefix puts a prefix before the path.
type AddPrefix struct {
	Prefix string `json:"prefix" required:"true" pattern:"^/" maxLength:"4096" description:"The prefix; it starts with a slash."`
}

// StripPrefix removes a prefix of the path.
type StripPrefix struct {
	Prefixes      []string `json:"prefixes" required:"true" minItems:"1" maxItems:"64" description:"The prefixes; each starts with a slash."`
	ForwardPrefix bool     `json:"forwardPrefix,omitempty" description:"Forwards the removed prefix to the backend as X-Forwarded-Prefix."`
}

// StripPrefixRegexp removes a prefix of the path that expressions describe.
type StripPrefixRegexp struct {
	Regexps       []Expression `json:"regexps" required:"true" minItems:"1" maxItems:"64" description:"RE2 expressions."`
	ForwardPrefix bool         `json:"forwardPrefix,omitempty" description:"Forwards the removed prefix to the backend as X-Forwarded-Prefix."`
}

// ReplacePath replaces the path of a request.
type ReplacePath struct {
	Path string `json:"path" required:"true" pattern:"^/" maxLength:"4096" description:"The new path."`
}

// ReplacePathRegexp rewrites the path.
type ReplacePathRegexp struct {
	Regexp      string `json:"regexp" required:"true" maxLength:"1024" description:"RE2 expression for the path."`
	Replacement string `json:"replacement" required:"true" maxLength:"4096" description:"The new path; ${1} stands for the first group."`
}

// HeaderValue is a header field.
type HeaderValue struct {
	Name  string `json:"name" required:"true" description:"Name of the header."`
	Value string `json:"value,omitempty" description:"Its value."`
}

// RequestHeaders changes the header that the backend gets.
type RequestHeaders struct {
	Set    map[string]string `json:"set,omitempty" description:"Headers by name; existing values are replaced."`
	Add    []HeaderValue     `json:"add,omitempty" maxItems:"64" description:"Headers that are added to existing values."`
	Remove []string          `json:"remove,omitempty" maxItems:"64" description:"Names of headers that are removed."`
}

// ResponseHeaders changes the header that the client gets.
type ResponseHeaders struct {
	Set    map[string]string `json:"set,omitempty" description:"Headers by name; existing values are replaced."`
	Add    []HeaderValue     `json:"add,omitempty" maxItems:"64" description:"Headers that are added to existing values."`
	Remove []string          `json:"remove,omitempty" maxItems:"64" description:"Names of headers that are removed."`
}

// ErrorPages lets a Service write the page for an error.
type ErrorPages struct {
	Statuses []StatusRange `json:"statuses" required:"true" minItems:"1" maxItems:"64" description:"The errors that are replaced, such as 404 or 500-599."`
	Service  ServiceRef    `json:"service" required:"true" description:"The Service that has the pages."`
	Path     string        `json:"path" required:"true" pattern:"^/" maxLength:"4096" description:"Path of the page; {status} stands for the status of the error."`
}

// CORS responds to preflight requests and adds CORS headers to responses.
type CORS struct {
	AllowOrigins       []string     `json:"allowOrigins,omitempty" maxItems:"64" description:"Origins such as https://example.com, or * for all."`
	AllowOriginRegexps []Expression `json:"allowOriginRegexps,omitempty" maxItems:"64" description:"RE2 expressions that match the whole origin."`
	AllowMethods       []string     `json:"allowMethods,omitempty" maxItems:"64" description:"Methods that scripts may use."`
	AllowHeaders       []string     `json:"allowHeaders,omitempty" maxItems:"64" description:"Headers that scripts may send."`
	ExposeHeaders      []string     `json:"exposeHeaders,omitempty" maxItems:"64" description:"Response headers that scripts may read."`
	AllowCredentials   bool         `json:"allowCredentials,omitempty" description:"Allows scripts to send cookies. It cannot be combined with the origin *."`
	MaxAge             Duration     `json:"maxAge,omitempty" description:"How long browsers cache a preflight response."`
}
