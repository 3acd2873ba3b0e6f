package v1alpha1

import (
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Middleware is a list of filters under a name, for the Ingresses that name it.
type Middleware struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec MiddlewareSpec `json:"spec"`
}

// MiddlewareSpec is what a Middleware does.
type MiddlewareSpec struct {
	Filters []Filter `json:"filters" required:"true" choice:"true" minItems:"1" maxItems:"64" description:"Filters that requests pass, in this order. Each filter has exactly one field."`
}

// Filter is one step that a request passes. Exactly one of its fields is set.
//
// The tag short names the field that the short form of an annotation sets, the
// tag example is the value of an annotation, and inline:"false" is for a filter
// that annotations do not have.
type Filter struct {
	RedirectScheme     *RedirectScheme     `json:"redirectScheme,omitempty" short:"scheme" example:"https" description:"Redirects clients to the same URL with another scheme."`
	RedirectRegexp     *RedirectRegexp     `json:"redirectRegexp,omitempty" example:"{regexp: '^https://www\\.(.*)$', replacement: 'https://${1}'}" description:"Redirects clients to a URL that is derived from the requested one."`
	IPFilter           *IPFilter           `json:"ipFilter,omitempty" short:"allow" example:"10.0.0.0/8, 192.168.0.0/16" description:"Allows or denies requests by client address. deny is evaluated first; with allow, all other clients are denied."`
	CORS               *CORS               `json:"cors,omitempty" short:"allowOrigins" example:"https://app.example.com" description:"Responds to preflight requests, and adds CORS headers to responses for scripts of other origins."`
	RateLimit          *RateLimit          `json:"rateLimit,omitempty" example:"100/1s" description:"Limits the number of requests in a period, and responds with 429 to further ones. All rules that reference the same declaration share the counter."`
	InFlight           *InFlight           `json:"inFlight,omitempty" short:"max" example:"50" description:"Limits the number of concurrent requests, and responds with 429 to further ones."`
	BodyLimit          *BodyLimit          `json:"bodyLimit,omitempty" short:"maxBytes" example:"10Mi" description:"Responds with 413 to requests with a larger body."`
	BasicAuth          *BasicAuth          `json:"basicAuth,omitempty" short:"secret" example:"users" description:"Requires a user name and password (HTTP basic authentication)."`
	ForwardAuth        *ForwardAuth        `json:"forwardAuth,omitempty" example:"{service: {name: auth, port: 8080}, path: /check, responseHeaders: [X-User]}" description:"Sends a sub-request to a Service to authorize each request. A response other than 2xx is returned to the client."`
	ForwardCertificate *ForwardCertificate `json:"forwardCertificate,omitempty" short:"pemHeader" example:"X-Client-Certificate" description:"Forwards the client certificate to the backend in headers. Headers of the client with these names are removed."`
	WAF                *WAF                `json:"waf,omitempty" short:"mode" example:"deny" description:"Inspects requests and responses with the OWASP Core Rule Set and with rules of ModSecurity (a web application firewall)."`
	ErrorPages         *ErrorPages         `json:"errorPages,omitempty" example:"{statuses: [404, 500-599], service: {name: pages, port: 80}, path: '/{status}.html'}" description:"Serves error pages from a Service."`
	Compression        *Compression        `json:"compression,omitempty" example:"true" description:"Compresses responses for clients that support it."`
	ResponseHeaders    *ResponseHeaders    `json:"responseHeaders,omitempty" example:"{set: {X-Frame-Options: DENY}, remove: [Server]}" description:"Changes the response headers that the client gets: first remove, then set, then add."`
	RequestHeaders     *RequestHeaders     `json:"requestHeaders,omitempty" example:"{set: {X-Environment: production}}" description:"Changes the request headers that the backend gets: first remove, then set, then add."`
	StripPrefix        *StripPrefix        `json:"stripPrefix,omitempty" short:"prefixes" example:"/api" description:"Removes the first prefix that matches the path, element by element."`
	StripPrefixRegexp  *StripPrefixRegexp  `json:"stripPrefixRegexp,omitempty" short:"regexps" example:"^/v[0-9]+" description:"Removes the match of the first expression that matches at the start of the path."`
	ReplacePath        *ReplacePath        `json:"replacePath,omitempty" short:"path" example:"/index.html" description:"Replaces the requested path."`
	ReplacePathRegexp  *ReplacePathRegexp  `json:"replacePathRegexp,omitempty" example:"{regexp: '^/old/(.*)', replacement: '/new/${1}'}" description:"Rewrites paths that match the expression."`
	AddPrefix          *AddPrefix          `json:"addPrefix,omitempty" short:"prefix" example:"/site" description:"Adds a prefix to the path."`
	Buffering          *Buffering          `json:"buffering,omitempty" short:"maxRequestBytes" example:"1Mi" description:"Reads a body in full before forwarding it. The response to a larger request body is 413, and to a larger response body of the backend 502."`
	Retry              *Retry              `json:"retry,omitempty" short:"attempts" example:"3" description:"Retries a request, on another endpoint if there is one. A request whose body was partly sent is retried only with buffering."`
	CircuitBreaker     *CircuitBreaker     `json:"circuitBreaker,omitempty" short:"failurePercent" example:"50" description:"Stops requests to a backend while too many fail, and responds with 503 for a while."`
	Mirror             *Mirror             `json:"mirror,omitempty" example:"{service: {name: next, port: 80}, percent: 10}" description:"Sends a copy of requests to another Service and discards its responses."`
	Chain              *Chain              `json:"chain,omitempty" inline:"false" example:"{middlewares: [secured, compressed]}" description:"Inserts the filters of other Middlewares."`
}

// Chain names other Middlewares.
type Chain struct {
	Middlewares []string `json:"middlewares" required:"true" minItems:"1" maxItems:"64" description:"Names of Middlewares, as name or namespace/name. Chains can be nested 4 deep."`
}

// ServiceRef names a port of a Service.
type ServiceRef struct {
	Name string      `json:"name" required:"true" description:"Name of the Service, as name or namespace/name."`
	Port ServicePort `json:"port" required:"true" description:"Port of the Service, as a number or a name."`
}

// RequestKey selects the part of a request that requests are counted or hashed
// by.
type RequestKey struct {
	By   string `json:"by" required:"true" enum:"all,client,host,path,header,cookie" description:"Attribute that distinguishes requests; client is the client address."`
	Name string `json:"name,omitempty" description:"Name of the header or cookie."`
}

// Name is the name of the filter that is set, such as rateLimit; empty when none
// or several are.
func (f *Filter) Name() string {
	value := reflect.ValueOf(f).Elem()
	found := ""
	for i := range value.NumField() {
		if value.Field(i).IsNil() {
			continue
		}
		if found != "" {
			return ""
		}
		found, _, _ = strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
	}
	return found
}
