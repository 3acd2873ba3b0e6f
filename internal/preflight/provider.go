package preflight

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ProviderID identifies the infrastructure of a cluster.
type ProviderID string

// The documented providers for NGINX Community.
const (
	AWS           ProviderID = "aws"
	AKS           ProviderID = "aks"
	BareMetal     ProviderID = "bare-metal"
	DigitalOcean  ProviderID = "digital-ocean"
	DockerDesktop ProviderID = "docker-desktop"
	Exoscale      ProviderID = "exoscale"
	GKE           ProviderID = "gke"
	MicroK8s      ProviderID = "microk8s"
	MiniKube      ProviderID = "minikube"
	Oracle        ProviderID = "oracle"
	Scaleway      ProviderID = "scaleway"
)

// Provider describes the installation of NGINX Community at a provider (R99
// to R109).
type Provider struct {
	ID   ProviderID
	Name string
	// Commands install the controller.
	Commands []string
	// Note is additional information.
	Note string
	// prefixes of spec.providerID and a node label that identify the
	// provider.
	prefixes []string
	label    string
}

// nginxManifest returns the command that applies a manifest of the
// controller.
func nginxManifest(tree, folder string) string {
	return fmt.Sprintf("kubectl apply -f https://raw.githubusercontent.com/kubernetes/ingress-nginx/%s/deploy/static/provider/%s/deploy.yaml", tree, folder)
}

// Providers returns the eleven documented providers.
func Providers() []Provider {
	// The documented release; newer controllers keep the same layout of
	// manifests.
	const release = "controller-v1.1.1"
	manifest := func(folder string) []string { return []string{nginxManifest(release, folder)} }
	return []Provider{
		{AWS, "AWS", manifest("aws"), "the Service needs an annotation for TCP, see P17", []string{"aws://"}, ""},
		{AKS, "Azure (AKS)", manifest("cloud"), "", []string{"azure://"}, ""},
		{BareMetal, "bare metal", manifest("baremetal"),
			"without a load balancer such as MetalLB the address is that of the nodes, with a port of its own: https://kubernetes.github.io/ingress-nginx/deploy/baremetal/", nil, ""},
		{DigitalOcean, "Digital Ocean", manifest("do"), "", []string{"digitalocean://"}, ""},
		{DockerDesktop, "Docker Desktop", manifest("cloud"), "its address is localhost: only this machine reaches the runtime, and webhooks from elsewhere do not", nil, ""},
		{Exoscale, "Exoscale", []string{nginxManifest("main", "exoscale")}, "", []string{"exoscale://"}, ""},
		{GKE, "Google (GKE)", slices.Concat(
			[]string{`kubectl create clusterrolebinding cluster-admin-binding --clusterrole cluster-admin --user "$(gcloud config get-value account)"`}, manifest("cloud")),
			"nodes may not reach the platform: see P27", []string{"gce://"}, ""},
		{MicroK8s, "MicroK8s", []string{"microk8s enable ingress"}, "the controller listens on its nodes and has no Service", nil, "microk8s.io/cluster"},
		{MiniKube, "MiniKube", []string{"minikube addons enable ingress"}, "minikube tunnel gives Services an address of this machine", nil, "minikube.k8s.io/name"},
		{Oracle, "Oracle Cloud", manifest("cloud"), "", []string{"oci://", "ocid1."}, ""},
		{Scaleway, "Scaleway", manifest("scw"), "", []string{"scaleway://"}, ""},
	}
}

// firewallCommands returns commands that let GKE nodes reach the platform
// (R105).
func firewallCommands() string {
	return `gcloud container clusters describe CLUSTER --format='get(network)'
gcloud container clusters describe CLUSTER --format='get(clusterIpv4Cidr)'
gcloud compute firewall-rules create "CLUSTER-to-all-vms-on-network" --network="NETWORK" --source-ranges="CIDR" --allow=tcp,udp,icmp,esp,ah,sctp`
}

// providerByID returns a provider by ID.
func providerByID(id ProviderID) (Provider, bool) {
	all := Providers()
	at := slices.IndexFunc(all, func(one Provider) bool { return one.ID == id })
	if at < 0 {
		return Provider{}, false
	}
	return all[at], true
}

// ParseProvider parses the name of a provider.
func ParseProvider(text string) (ProviderID, error) {
	if _, found := providerByID(ProviderID(text)); found {
		return ProviderID(text), nil
	}
	var names []string
	for _, one := range Providers() {
		names = append(names, string(one.ID))
	}
	return "", fmt.Errorf("the provider %q is not known: choose one of %s", text, strings.Join(names, ", "))
}

// providerOf detects the provider by the nodes; bare metal if none matches.
func providerOf(nodes []corev1.Node) ProviderID {
	// The first node that identifies a provider decides: clusters do not span
	// providers.
	for _, node := range nodes {
		if node.Name == string(DockerDesktop) {
			return DockerDesktop
		}
		for _, one := range Providers() {
			_, labelled := node.Labels[one.label]
			if one.label != "" && labelled || slices.ContainsFunc(one.prefixes, func(prefix string) bool { return strings.HasPrefix(node.Spec.ProviderID, prefix) }) {
				return one.ID
			}
		}
	}
	return BareMetal
}

// provider returns the configured provider, or the detected one. Without
// permission to read nodes it is bare metal.
func (in *CheckContext) provider() Provider {
	// The flag takes precedence: nodes of on-premises clusters often have no
	// providerID.
	id := in.Provider
	if id == "" {
		nodes, err := in.nodes()
		if err != nil {
			nodes = nil
		}
		id = providerOf(nodes)
	}
	found, known := providerByID(id)
	if !known {
		found, _ = providerByID(BareMetal)
	}
	return found
}

// installHint returns how a controller gets an address at the provider.
func (p Provider) installHint() string {
	// Commands come first, so that they can be copied.
	hint := strings.Join(p.Commands, "\n")
	if p.Note != "" {
		hint += "\n(" + p.Name + ": " + p.Note + ")"
	}
	return hint
}
