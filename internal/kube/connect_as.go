package kube

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	"slipway.dev/slipway/internal/secret"
)

// ConnectOptions are the API server and the credentials. Empty fields are
// discovered from the environment.
type ConnectOptions struct {
	// Endpoint is the URL of the API server, such as https://10.0.0.1:6443.
	Endpoint string
	// Token is a bearer token, or the path of a file with one. The file is read
	// again when it changes.
	Token secret.Text
	// CAFile has the certificate authorities of the API server, as PEM.
	CAFile string
	// Environ reads an environment variable; nil means os.Getenv.
	Environ func(string) string
	// ServiceAccount is the folder of the Pod's service account; empty means where
	// Kubernetes mounts it.
	ServiceAccount string
}

// The files that Kubernetes mounts into a Pod.
const (
	serviceAccount     = "/var/run/secrets/kubernetes.io/serviceaccount"
	accountToken       = "token"
	accountAuthorities = "ca.crt"
	accountNamespace   = "namespace"
)

const defaultNamespace = "default"

// Built-in kinds use protobuf, which costs less than JSON on both sides. Custom
// kinds have JSON only, hence two accepted encodings.
const (
	acceptedEncodings = "application/vnd.kubernetes.protobuf,application/json"
	sentEncoding      = "application/vnd.kubernetes.protobuf"
)

// ConnectAs returns the clients for the API server that it discovers, in this
// order:
//
//  1. KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are set, as they are
//     in a Pod: that address, with the Pod's service account.
//  2. KUBECONFIG is set: the current context of that file.
//  3. The endpoint of the options.
//
// Endpoint, Token and CAFile, if set, take precedence. Like Connect it sends
// nothing.
func ConnectAs(options ConnectOptions, more ...Option) (*Cluster, error) {
	if options.Environ == nil {
		options.Environ = os.Getenv
	}
	options.ServiceAccount = cmp.Or(options.ServiceAccount, serviceAccount)
	config, namespace, err := options.discover()
	if err != nil {
		return nil, err
	}
	if err := options.override(config); err != nil {
		return nil, err
	}
	if err := refusePlainText(config); err != nil {
		return nil, err
	}
	config.AcceptContentTypes, config.ContentType = acceptedEncodings, sentEncoding
	// The API server compresses each event of a watch that began with all objects (since
	// Kubernetes 1.37), for each client again. Within a cluster the bytes cost less.
	config.DisableCompression = true
	cluster, err := newCluster(config, more)
	if err != nil {
		return nil, fmt.Errorf("make clients for %s: %w", config.Host, err)
	}
	cluster.Namespace = namespace
	return cluster, nil
}

// discover returns the configuration of the API server, and the namespace of the
// program.
func (o *ConnectOptions) discover() (*rest.Config, string, error) {
	host, port := o.Environ("KUBERNETES_SERVICE_HOST"), o.Environ("KUBERNETES_SERVICE_PORT")
	if host != "" && port != "" {
		return o.inCluster(net.JoinHostPort(host, port))
	}
	namespace := o.Environ("POD_NAMESPACE")
	if path := o.Environ("KUBECONFIG"); path != "" {
		config, context, err := readKubeconfig(path)
		return config, cmp.Or(namespace, context), err
	}
	if o.Endpoint == "" {
		return nil, "", errors.New("no API server to connect to: run in a cluster, set KUBECONFIG, or set the endpoint")
	}
	return &rest.Config{}, cmp.Or(namespace, defaultNamespace), nil
}

// inCluster fills in from the service account what the options do not set.
func (o *ConnectOptions) inCluster(address string) (*rest.Config, string, error) {
	config := &rest.Config{Host: "https://" + address}
	if o.Token.IsZero() {
		config.BearerTokenFile = filepath.Join(o.ServiceAccount, accountToken)
		if err := checkTokenFile(config.BearerTokenFile); err != nil {
			return nil, "", fmt.Errorf("read the token of the service account: %w: "+
				"set automountServiceAccountToken, or give a token", err)
		}
	}
	if o.CAFile == "" {
		config.CAFile = filepath.Join(o.ServiceAccount, accountAuthorities)
		if err := checkAuthorities(config.CAFile); err != nil {
			return nil, "", fmt.Errorf("read the authorities of the service account: %w", err)
		}
	}
	namespace, err := readBounded(filepath.Join(o.ServiceAccount, accountNamespace), nameLimit)
	if err == nil && namespace != "" {
		return config, namespace, nil
	}
	if namespace = o.Environ("POD_NAMESPACE"); namespace == "" {
		namespace = defaultNamespace
	}
	return config, namespace, nil
}

// override replaces discovered values by those of the options.
func (o *ConnectOptions) override(config *rest.Config) error {
	if o.Endpoint != "" {
		if err := checkEndpoint(o.Endpoint); err != nil {
			return err
		}
		config.Host, config.APIPath = o.Endpoint, ""
	}
	if o.CAFile != "" {
		if err := checkAuthorities(o.CAFile); err != nil {
			return fmt.Errorf("read the file of authorities: %w", err)
		}
		config.TLSClientConfig.CAFile, config.TLSClientConfig.CAData, config.TLSClientConfig.Insecure = o.CAFile, nil, false
	}
	if o.Token.IsZero() {
		return nil
	}
	value, file, err := readToken(o.Token)
	if err != nil {
		return err
	}
	// One identity only: with a token in the options, a client certificate of the
	// kubeconfig must not authenticate the program as someone else.
	config.BearerToken, config.BearerTokenFile = value, file
	config.Username, config.Password = "", ""
	config.ExecProvider, config.AuthProvider = nil, nil
	config.Impersonate = rest.ImpersonationConfig{}
	config.TLSClientConfig.CertFile, config.TLSClientConfig.CertData = "", nil
	config.TLSClientConfig.KeyFile, config.TLSClientConfig.KeyData = "", nil
	return nil
}
