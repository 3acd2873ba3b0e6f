package kube

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	"slipway.dev/slipway/internal/secret"
)

// ConnectOptions say where the API server is and who asks. What is empty comes
// from the surroundings.
type ConnectOptions struct {
	// Endpoint is the URL of the API server, such as https://10.0.0.1:6443.
	Endpoint string
	// Token is a bearer token, or the path of a file with one. The file is read
	// again as it changes.
	Token secret.Text
	// CAFile has the authorities, as PEM, that may vouch for the API server.
	CAFile string
	// Environ reads a variable of the environment; nil is os.Getenv.
	Environ func(string) string
	// ServiceAccount is the folder where a Pod finds its account; empty is
	// where Kubernetes puts it.
	ServiceAccount string
}

// The files that Kubernetes gives to a Pod.
const (
	serviceAccount     = "/var/run/secrets/kubernetes.io/serviceaccount"
	accountToken       = "token"
	accountAuthorities = "ca.crt"
	accountNamespace   = "namespace"
)

const defaultNamespace = "default"

// The built-in kinds are read in Kubernetes' own encoding, which is cheaper than
// JSON on both sides.
const (
	acceptedEncodings = "application/vnd.kubernetes.protobuf,application/json"
	sentEncoding      = "application/vnd.kubernetes.protobuf"
)

// ConnectAs makes the clients for the API server that it finds, in this order:
//
//  1. KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are set, as they are
//     in a Pod: that address, with the Pod's service account.
//  2. KUBECONFIG is set: the current context of that file.
//  3. The endpoint of the options.
//
// Endpoint, Token and CAFile, where they are given, win over what is found. Like
// Connect it sends nothing.
func ConnectAs(options ConnectOptions, more ...Option) (*Cluster, error) {
	if options.Environ == nil {
		options.Environ = os.Getenv
	}
	if options.ServiceAccount == "" {
		options.ServiceAccount = serviceAccount
	}
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
	cluster, err := newCluster(config, more)
	if err != nil {
		return nil, fmt.Errorf("make clients for %s: %w", config.Host, err)
	}
	cluster.Namespace = namespace
	return cluster, nil
}

// discover finds the API server, and the namespace of the program.
func (o *ConnectOptions) discover() (*rest.Config, string, error) {
	host, port := o.Environ("KUBERNETES_SERVICE_HOST"), o.Environ("KUBERNETES_SERVICE_PORT")
	if host != "" && port != "" {
		return o.inCluster(net.JoinHostPort(host, port))
	}
	namespace := o.Environ("POD_NAMESPACE")
	if path := o.Environ("KUBECONFIG"); path != "" {
		config, context, err := readKubeconfig(path)
		if namespace == "" {
			namespace = context
		}
		return config, namespace, err
	}
	if o.Endpoint == "" {
		return nil, "", errors.New("no API server to connect to: run in a cluster, set KUBECONFIG, or set the endpoint")
	}
	if namespace == "" {
		namespace = defaultNamespace
	}
	return &rest.Config{}, namespace, nil
}

// inCluster takes from the service account what the options do not give.
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

// override puts what the options give in the place of what was found.
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
	// One identity only: whoever gives a token does not want to be seen as
	// somebody else by a certificate of the kubeconfig.
	config.BearerToken, config.BearerTokenFile = value, file
	config.Username, config.Password = "", ""
	config.ExecProvider, config.AuthProvider = nil, nil
	config.Impersonate = rest.ImpersonationConfig{}
	config.TLSClientConfig.CertFile, config.TLSClientConfig.CertData = "", nil
	config.TLSClientConfig.KeyFile, config.TLSClientConfig.KeyData = "", nil
	return nil
}
