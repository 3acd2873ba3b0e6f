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
	MinVersion   string      `json:"minVersion,omitempty" enum:"1.0,1.1,1.2,1.3" description:"The oldest version of TLS. Without it 1.2."`
	MaxVersion   string      `json:"maxVersion,omitempty" enum:"1.0,1.1,1.2,1.3" description:"The newest version of TLS. Without it the newest there is."`
	CipherSuites []string    `json:"cipherSuites,omitempty" maxItems:"64" description:"Names such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, for TLS 1.2 and older. Without it, those that are safe."`
	ClientAuth   *ClientAuth `json:"clientAuth,omitempty" description:"What is asked of clients. Without it nothing."`
	ALPN         []string    `json:"alpn,omitempty" maxItems:"8" description:"Protocols, the best first. Without it h2 and http/1.1."`
	SNIStrict    bool        `json:"sniStrict,omitempty" description:"Refuses names without a certificate, instead of showing the default one."`
}

// ClientAuth configures the verification of client certificates.
type ClientAuth struct {
	Mode    string   `json:"mode,omitempty" default:"verify" enum:"none,request,requireAny,verifyIfGiven,verify" description:"request takes any certificate or none, requireAny any but not none, verifyIfGiven none or one that an authority vouches for, verify only one that an authority vouches for."`
	Secrets []string `json:"secrets,omitempty" maxItems:"16" description:"Names of Secrets with the certificates of authorities under the key ca.crt."`
}
