package kube

import (
	"errors"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
)

// UserChoice is what a person said about the cluster to use. What is empty is
// found as kubectl finds it.
type UserChoice struct {
	// Kubeconfig is a file. When it is empty, it is those of KUBECONFIG, or else
	// ~/.kube/config.
	Kubeconfig string
	// Context is one of the file. When it is empty, it is the current one.
	Context string
}

// ConnectUser makes the clients for the cluster that a person means: where
// kubectl would go with the same choice, in a Pod too. Like Connect it sends
// nothing.
func ConnectUser(choice UserChoice, options ...Option) (*Cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = choice.Kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: choice.Context})
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("no kubeconfig says where the cluster is: name one with --kubeconfig, or set KUBECONFIG")
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
