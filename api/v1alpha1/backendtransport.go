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
	TLS       *UpstreamTLS `json:"tls,omitempty" description:"How endpoints prove who they are, and the edge to them. It is for Services that are spoken to over TLS."`
	Timeouts  *Timeouts    `json:"timeouts,omitempty" description:"Bounds the waits for an endpoint. Annotations of an Ingress come before it."`
	HTTP1Only bool         `json:"http1Only,omitempty" description:"Keeps a Service over TLS from being spoken to by HTTP/2."`
}

// UpstreamTLS configures how the edge verifies endpoints, and the client
// certificate that it presents to them.
type UpstreamTLS struct {
	ServerName        string `json:"serverName,omitempty" maxLength:"253" description:"The name that is asked for and verified. Without it, the name of the Service in the cluster."`
	CASecret          string `json:"caSecret,omitempty" description:"Name of a Secret with the authorities that vouch for the endpoints, under the key ca.crt. Without it, those of the system do."`
	SkipVerify        bool   `json:"skipVerify,omitempty" description:"Trusts whoever answers. It cannot go with caSecret."`
	CertificateSecret string `json:"certificateSecret,omitempty" description:"Name of a Secret of type kubernetes.io/tls that is shown to endpoints that ask for a certificate."`
}

// Timeouts bound the waits for an endpoint.
type Timeouts struct {
	Connect Duration `json:"connect,omitempty" description:"Bounds making a connection. Without it, the default of the edge."`
	Header  Duration `json:"header,omitempty" description:"Bounds the wait for the head of the answer. Without it, the default of the edge."`
	Idle    Duration `json:"idle,omitempty" description:"Bounds the wait between two pieces of a body, either way. Without it, the default of the edge."`
	Total   Duration `json:"total,omitempty" description:"Bounds the whole exchange. Without it, there is no bound."`
}
