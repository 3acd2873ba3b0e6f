package kube

import (
	"errors"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
)

// UserChoice selects a cluster on the command line. Empty fields are resolved as
// kubectl resolves them.
type UserChoice struct {
	// Kubeconfig is a file. Empty means those of KUBECONFIG, or else
	// ~/.kube/config.
	Kubeconfig string
	// Context is a context of the file. Empty means the current one.
	Context string
}

// ConnectUser returns the clients for the cluster that kubectl would use with the
// same choice, in a Pod too. Like Connect it sends nothing.
func ConnectUser(choice UserChoice, options ...Option) (*Cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = choice.Kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: choice.Context})
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("no cluster is configured: name a kubeconfig with --kubeconfig, or set KUBECONFIG")
	}
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	if err := refusePlainText(config); err != nil {
		return nil, err
	}
	cluster, err := newCluster(config, options)
	if err != nil {
		return nil, fmt.Errorf("make clients for %s: %w", config.Host, err)
	}
	cluster.Namespace = namespace
	return cluster, nil
}
