package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BackendTransport configures the connections to the endpoints of the Services
// that name it.
type BackendTransport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec BackendTransportSpec `json:"spec"`
}

// BackendTransportSpec is the way to the endpoints of a Service.
type BackendTransportSpec struct {
	TLS       *UpstreamTLS `json:"tls,omitempty" description:"Certificates of the endpoints and of the edge, for Services with TLS."`
	Timeouts  *Timeouts    `json:"timeouts,omitempty" description:"Timeouts for endpoints. Annotations of an Ingress take precedence."`
	HTTP1Only bool         `json:"http1Only,omitempty" description:"Disables HTTP/2 to a Service with TLS."`
}

// UpstreamTLS configures how the edge verifies endpoints, and the client
// certificate that it presents to them.
type UpstreamTLS struct {
	ServerName        string `json:"serverName,omitempty" maxLength:"253" description:"Server name that is requested (SNI) and verified. Defaults to the name of the Service in the cluster."`
	CASecret          string `json:"caSecret,omitempty" description:"Name of a Secret with the CA certificates that verify the endpoints, under the key ca.crt. Defaults to those of the system."`
	SkipVerify        bool   `json:"skipVerify,omitempty" description:"Disables the verification of the endpoints' certificates. It cannot be combined with caSecret."`
	CertificateSecret string `json:"certificateSecret,omitempty" description:"Name of a Secret of type kubernetes.io/tls with the client certificate for endpoints that request one."`
}

// Timeouts bound the waits for an endpoint.
type Timeouts struct {
	Connect Duration `json:"connect,omitempty" description:"Timeout of connecting. Defaults to that of the edge."`
	Header  Duration `json:"header,omitempty" description:"Timeout for the response head. Defaults to that of the edge."`
	Idle    Duration `json:"idle,omitempty" description:"Timeout between two pieces of a body, in either direction. Defaults to that of the edge."`
	Total   Duration `json:"total,omitempty" description:"Timeout of the whole exchange. By default, there is none."`
}
