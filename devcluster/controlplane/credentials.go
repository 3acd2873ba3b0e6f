package controlplane

import (
	"net"
	"net/netip"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"slipway.dev/slipway/devcluster/pki"
)

// Credentials are the authorities and certificates of one cluster.
//
// There are two authorities, because a certificate for one purpose must not
// serve another: the cluster's authority signs client certificates of users,
// and with a single authority the API server would accept those as a front
// proxy, which may impersonate any user.
type Credentials struct {
	// Cluster signs the certificates of the API server, the users and the node.
	Cluster *pki.Authority

	// frontProxy signs the certificate with which the API server forwards
	// requests to aggregated API servers.
	frontProxy *pki.Authority

	apiServer, kubeletClient, frontProxyClient pki.Pair
	admin, controllerManager, scheduler        pki.Pair
	serviceAccountKey, serviceAccountPublic    string
}

// KubeletClient is the common name in the certificate that the API server
// presents to nodes. A node requires it, because the cluster's authority signs
// for users too.
const KubeletClient = "kube-apiserver-kubelet-client"

// issueCredentials opens or creates the authorities in dir, and issues every
// leaf certificate again. The API server's certificate covers all names by
// which clients reach it: loopback, the node's address and the `kubernetes`
// Service.
func issueCredentials(dir string, node netip.Addr) (*Credentials, error) {
	c := &Credentials{}
	for _, a := range []struct {
		name string
		to   **pki.Authority
	}{
		{"ca", &c.Cluster}, {"front-proxy-ca", &c.frontProxy},
	} {
		authority, err := pki.OpenAuthority(dir, a.name)
		if err != nil {
			return nil, err
		}
		*a.to = authority
	}
	loopback := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	for _, l := range []struct {
		by   *pki.Authority
		name string
		leaf pki.Leaf
		to   *pki.Pair
	}{
		{c.Cluster, "apiserver", pki.Leaf{
			CommonName: "kube-apiserver", Server: true,
			DNSNames: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
			IPs:      append(loopback, net.ParseIP(firstServiceIP), node.AsSlice()),
		}, &c.apiServer},
		{c.Cluster, "apiserver-kubelet-client", pki.Leaf{CommonName: KubeletClient, Client: true}, &c.kubeletClient},
		{c.Cluster, "admin", pki.Leaf{CommonName: "slipway-admin", Organizations: []string{"system:masters"}, Client: true}, &c.admin},
		{c.Cluster, "controller-manager", pki.Leaf{CommonName: "system:kube-controller-manager", Client: true}, &c.controllerManager},
		{c.Cluster, "scheduler", pki.Leaf{CommonName: "system:kube-scheduler", Client: true}, &c.scheduler},
		{c.frontProxy, "front-proxy-client", pki.Leaf{CommonName: "front-proxy-client", Client: true}, &c.frontProxyClient},
	} {
		pair, err := l.by.Issue(l.name, l.leaf)
		if err != nil {
			return nil, err
		}
		*l.to = pair
	}
	var err error
	// Kept across restarts: a new key would invalidate all service account
	// tokens.
	c.serviceAccountKey, c.serviceAccountPublic, err = pki.SigningKey(dir, "service-account")
	return c, err
}

// identities are the paths of the kubeconfig files of the parts.
type identities struct{ controllerManager, scheduler string }

// writeKubeconfigs writes one kubeconfig for the administrator and one for each
// part, beside each other. The parts have users of their own, which RBAC limits
// to their default roles.
func (c *Cluster) writeKubeconfigs(server string) (identities, error) {
	var id identities
	for _, k := range []struct {
		path *string
		name string
		user string
		pair pki.Pair
	}{
		{&c.Kubeconfig, c.Kubeconfig, "slipway-admin", c.Credentials.admin},
		{&id.controllerManager, c.Kubeconfig + ".controller-manager", "controller-manager", c.Credentials.controllerManager},
		{&id.scheduler, c.Kubeconfig + ".scheduler", "scheduler", c.Credentials.scheduler},
	} {
		if err := writeKubeconfig(k.name, server, k.user, c.Credentials.Cluster.File(), k.pair); err != nil {
			return identities{}, err
		}
		*k.path = k.name
	}
	return id, nil
}

// writeKubeconfig writes a kubeconfig that embeds the certificates, so that the
// file can be copied elsewhere. It replaces the file atomically: kubectl may
// read it during a restart.
func writeKubeconfig(path, server, user, caFile string, pair pki.Pair) error {
	files := make([][]byte, 0, 3)
	for _, name := range []string{caFile, pair.CertFile, pair.KeyFile} {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files = append(files, content)
	}
	const name = "slipway-devcluster"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: files[0]}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: files[1], ClientKeyData: files[2]}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user, Namespace: "default"}
	config.CurrentContext = name
	content, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return pki.ReplaceFile(path, content, 0o600)
}
