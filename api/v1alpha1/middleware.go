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
	Filters []Filter `json:"filters" required:"true" choice:"true" minItems:"1" maxItems:"64" description:"What requests pass, in this order. Each filter has exactly one field."`
}

// Filter is one step that a request passes. Exactly one of its fields is set.
//
// The tag short names the field that the short form of an annotation sets, the
// tag example is the value of an annotation, and inline:"false" is for a filter
// that annotations do not have.
type Filter struct {
	RedirectScheme     *RedirectScheme     `json:"redirectScheme,omitempty" short:"scheme" example:"https" description:"Sends clients to the same place under another scheme."`
	RedirectRegexp     *RedirectRegexp     `json:"redirectRegexp,omitempty" example:"{regexp: '^https://www\\.(.*)$', replacement: 'https://${1}'}" description:"Sends clients to a place made from the one they asked for."`
	IPFilter           *IPFilter           `json:"ipFilter,omitempty" short:"allow" example:"10.0.0.0/8, 192.168.0.0/16" description:"Lets in by the address of the client. deny is asked first; with allow, who is not in it stays out."`
	CORS               *CORS               `json:"cors,omitempty" short:"allowOrigins" example:"https://app.example.com" description:"Answers preflight requests, and marks answers for scripts of other origins."`
	RateLimit          *RateLimit          `json:"rateLimit,omitempty" example:"100/1s" description:"Lets a number of requests through in a time, and answers 429 to the rest. All rules that name the same declaration share the count."`
	InFlight           *InFlight           `json:"inFlight,omitempty" short:"max" example:"50" description:"Bounds the requests that run at one time, and answers 429 to the rest."`
	BodyLimit          *BodyLimit          `json:"bodyLimit,omitempty" short:"maxBytes" example:"10Mi" description:"Answers 413 to requests with a larger body."`
	BasicAuth          *BasicAuth          `json:"basicAuth,omitempty" short:"secret" example:"users" description:"Lets in who knows the password of a user."`
	ForwardAuth        *ForwardAuth        `json:"forwardAuth,omitempty" example:"{service: {name: auth, port: 8080}, path: /check, responseHeaders: [X-User]}" description:"Asks a Service whether a request may pass. An answer other than 2xx goes to the client."`
	ForwardCertificate *ForwardCertificate `json:"forwardCertificate,omitempty" short:"pemHeader" example:"X-Client-Certificate" description:"Tells the backend about the certificate of the client. What the client sent under these names is removed."`
	ErrorPages         *ErrorPages         `json:"errorPages,omitempty" example:"{statuses: [404, 500-599], service: {name: pages, port: 80}, path: '/{status}.html'}" description:"Lets a Service write the page for an error."`
	Compression        *Compression        `json:"compression,omitempty" example:"true" description:"Compresses answers for clients that can read it."`
	ResponseHeaders    *ResponseHeaders    `json:"responseHeaders,omitempty" example:"{set: {X-Frame-Options: DENY}, remove: [Server]}" description:"Changes the header that the client gets: first remove, then set, then add."`
	RequestHeaders     *RequestHeaders     `json:"requestHeaders,omitempty" example:"{set: {X-Environment: production}}" description:"Changes the header that the backend gets: first remove, then set, then add."`
	StripPrefix        *StripPrefix        `json:"stripPrefix,omitempty" short:"prefixes" example:"/api" description:"Removes the first of the prefixes that fits, element by element."`
	StripPrefixRegexp  *StripPrefixRegexp  `json:"stripPrefixRegexp,omitempty" short:"regexps" example:"^/v[0-9]+" description:"Removes what the first expression that fits finds at the start of the path."`
	ReplacePath        *ReplacePath        `json:"replacePath,omitempty" short:"path" example:"/index.html" description:"Puts another path in the place of the one asked for."`
	ReplacePathRegexp  *ReplacePathRegexp  `json:"replacePathRegexp,omitempty" example:"{regexp: '^/old/(.*)', replacement: '/new/${1}'}" description:"Rewrites the path where the expression fits."`
	AddPrefix          *AddPrefix          `json:"addPrefix,omitempty" short:"prefix" example:"/site" description:"Puts a prefix before the path."`
	Buffering          *Buffering          `json:"buffering,omitempty" short:"maxRequestBytes" example:"1Mi" description:"Reads a body in full before it is passed on. A larger one is answered with 413, or with 502 where it is the backend's."`
	Retry              *Retry              `json:"retry,omitempty" short:"attempts" example:"3" description:"Sends a request again, to another endpoint where there is one. A request whose body is on its way is repeated only with buffering."`
	CircuitBreaker     *CircuitBreaker     `json:"circuitBreaker,omitempty" short:"failurePercent" example:"50" description:"Stops sending to backends that mostly fail, and answers 503 for a while."`
	Mirror             *Mirror             `json:"mirror,omitempty" example:"{service: {name: next, port: 80}, percent: 10}" description:"Sends a copy of requests to another Service and drops its answers."`
	Chain              *Chain              `json:"chain,omitempty" inline:"false" example:"{middlewares: [secured, compressed]}" description:"Puts the filters of other Middlewares here."`
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
	By   string `json:"by" required:"true" enum:"all,client,host,path,header,cookie" description:"What tells requests apart: client is the address."`
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
