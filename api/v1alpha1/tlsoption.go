package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// TLSOption configures the TLS handshake of clients with the hosts of the
// Ingresses that name it.
type TLSOption struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec TLSOptionSpec `json:"spec"`
}

// TLSOptionSpec are the conditions of a handshake.
type TLSOptionSpec struct {
	MinVersion   string      `json:"minVersion,omitempty" enum:"1.0,1.1,1.2,1.3" description:"Minimum TLS version. Defaults to 1.2."`
	MaxVersion   string      `json:"maxVersion,omitempty" enum:"1.0,1.1,1.2,1.3" description:"Maximum TLS version. Defaults to the newest supported version."`
	CipherSuites []string    `json:"cipherSuites,omitempty" maxItems:"64" description:"Names such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, for TLS 1.2 and older. Defaults to the secure ones."`
	ClientAuth   *ClientAuth `json:"clientAuth,omitempty" description:"Client certificate authentication. By default, no client certificate is requested."`
	ALPN         []string    `json:"alpn,omitempty" maxItems:"8" description:"ALPN protocols in order of preference. Defaults to h2 and http/1.1."`
	SNIStrict    bool        `json:"sniStrict,omitempty" description:"Refuses server names without a certificate, instead of presenting the default certificate."`
}

// ClientAuth configures the verification of client certificates.
type ClientAuth struct {
	Mode    string   `json:"mode,omitempty" default:"verify" enum:"none,request,requireAny,verifyIfGiven,verify" description:"request accepts any certificate or none, requireAny requires a certificate without verifying it, verifyIfGiven accepts none or one that a CA verifies, verify requires one that a CA verifies."`
	Secrets []string `json:"secrets,omitempty" maxItems:"16" description:"Names of Secrets with CA certificates under the key ca.crt."`
}
