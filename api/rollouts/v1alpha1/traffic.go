package v1alpha1

// RolloutTrafficRouting is the router of a canary.
type RolloutTrafficRouting struct {
	Istio            *Unsupported         `json:"istio,omitempty" refused:"traffic goes through the edge: use nginx with an Ingress, or plugins with argoproj-labs/gatewayAPI and an HTTPRoute" description:"Not supported."`
	Nginx            *NginxTrafficRouting `json:"nginx,omitempty" description:"Canary Ingress beside a stable one, with annotations of ingress-nginx, which the edge serves."`
	ALB              *Unsupported         `json:"alb,omitempty" refused:"traffic goes through the edge: use nginx with an Ingress, or plugins with argoproj-labs/gatewayAPI and an HTTPRoute" description:"Not supported."`
	SMI              *Unsupported         `json:"smi,omitempty" refused:"traffic goes through the edge: use nginx with an Ingress, or plugins with argoproj-labs/gatewayAPI and an HTTPRoute" description:"Not supported."`
	Ambassador       *Unsupported         `json:"ambassador,omitempty" refused:"traffic goes through the edge: use nginx with an Ingress, or plugins with argoproj-labs/gatewayAPI and an HTTPRoute" description:"Not supported."`
	AppMesh          *Unsupported         `json:"appMesh,omitempty" refused:"traffic goes through the edge: use nginx with an Ingress, or plugins with argoproj-labs/gatewayAPI and an HTTPRoute" description:"Not supported."`
	Traefik          *Unsupported         `json:"traefik,omitempty" refused:"traffic goes through the edge: use nginx with an Ingress, or plugins with argoproj-labs/gatewayAPI and an HTTPRoute" description:"Not supported."`
	ManagedRoutes    []ManagedRoute       `json:"managedRoutes,omitempty" description:"Routes that the steps setHeaderRoute and setMirrorRoute manage, in the order of their precedence."`
	Apisix           *Unsupported         `json:"apisix,omitempty" refused:"traffic goes through the edge: use nginx with an Ingress, or plugins with argoproj-labs/gatewayAPI and an HTTPRoute" description:"Not supported."`
	Plugins          *TrafficPlugins      `json:"plugins,omitempty" description:"Routers by their names."`
	MaxTrafficWeight *int32               `json:"maxTrafficWeight,omitempty" minimum:"1" description:"Weight that is all traffic. Defaults to 100."`
}

// ManagedRoute is the name of a route.
type ManagedRoute struct {
	Name string `json:"name" required:"true" description:"Name of the route."`
}

// TrafficPlugins are the routers that Argo Rollouts has as plugins.
type TrafficPlugins struct {
	GatewayAPI *GatewayAPITrafficRouting `json:"argoproj-labs/gatewayAPI,omitempty" description:"Weights of the backends of HTTPRoutes."`
}

// GatewayAPITrafficRouting has the routes whose weights are written.
type GatewayAPITrafficRouting struct {
	HTTPRoute  string             `json:"httpRoute,omitempty" description:"Name of an HTTPRoute."`
	HTTPRoutes []GatewayHTTPRoute `json:"httpRoutes,omitempty" description:"HTTPRoutes."`
	Namespace  string             `json:"namespace,omitempty" description:"Namespace of the routes. Only that of the Rollout is possible, which is the default."`
	GRPCRoute  *Unsupported       `json:"grpcRoute,omitempty" refused:"use an HTTPRoute" description:"Not supported."`
	GRPCRoutes *Unsupported       `json:"grpcRoutes,omitempty" refused:"use HTTPRoutes" description:"Not supported."`
	TCPRoute   *Unsupported       `json:"tcpRoute,omitempty" refused:"use an HTTPRoute" description:"Not supported."`
	TCPRoutes  *Unsupported       `json:"tcpRoutes,omitempty" refused:"use HTTPRoutes" description:"Not supported."`
}

// GatewayHTTPRoute names an HTTPRoute.
type GatewayHTTPRoute struct {
	Name            string `json:"name" required:"true" description:"Name of the HTTPRoute."`
	UseHeaderRoutes bool   `json:"useHeaderRoutes,omitempty" description:"Lets the step setHeaderRoute add rules to the route."`
}

// NginxTrafficRouting writes a canary Ingress.
type NginxTrafficRouting struct {
	AnnotationPrefix             string            `json:"annotationPrefix,omitempty" description:"Prefix of the annotations. Defaults to nginx.ingress.kubernetes.io."`
	StableIngress                string            `json:"stableIngress,omitempty" description:"Ingress that serves stableService."`
	AdditionalIngressAnnotations map[string]string `json:"additionalIngressAnnotations,omitempty" description:"Annotations of the canary Ingress; a name without a prefix gets annotationPrefix."`
	StableIngresses              []string          `json:"stableIngresses,omitempty" description:"Ingresses that serve stableService, in place of stableIngress."`
	CanaryIngressAnnotations     map[string]string `json:"canaryIngressAnnotations,omitempty" description:"Annotations of the canary Ingress, with full names."`
}

// SetMirrorRoute copies requests to the canary.
type SetMirrorRoute struct {
	Name       string       `json:"name" required:"true" description:"Name of the route, which is in managedRoutes."`
	Match      []RouteMatch `json:"match,omitempty" description:"Requests that are copied; none removes the route."`
	Percentage *int32       `json:"percentage,omitempty" description:"Percentage of the requests."`
}

// RouteMatch selects requests.
type RouteMatch struct {
	Method  *StringMatch           `json:"method,omitempty" description:"Method."`
	Path    *StringMatch           `json:"path,omitempty" description:"Path."`
	Headers map[string]StringMatch `json:"headers,omitempty" description:"Headers."`
}

// StringMatch is one of three comparisons.
type StringMatch struct {
	Exact  string `json:"exact,omitempty" description:"The text."`
	Prefix string `json:"prefix,omitempty" description:"Start of the text."`
	Regex  string `json:"regex,omitempty" description:"Regular expression of the text."`
}

// SetHeaderRoute leads requests with a header to the canary.
type SetHeaderRoute struct {
	Name  string               `json:"name,omitempty" description:"Name of the route, which is in managedRoutes."`
	Match []HeaderRoutingMatch `json:"match,omitempty" description:"Headers; none removes the route."`
}

// HeaderRoutingMatch is a header and its value.
type HeaderRoutingMatch struct {
	HeaderName  string       `json:"headerName" required:"true" description:"Name of the header."`
	HeaderValue *StringMatch `json:"headerValue" required:"true" description:"Value of the header."`
}
