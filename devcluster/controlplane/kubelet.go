package controlplane

import (
	"net"
	"net/netip"
	"path/filepath"

	"slipway.dev/slipway/devcluster/pki"
)

// WriteNodeFiles writes the files that a kubelet and a kube-proxy on this
// machine need, beside the administrator's kubeconfig: kubeconfig.kubelet and
// kubeconfig.kube-proxy with the identities of Kubernetes' default roles, and
// the certificate pki/kubelet-server by which the API server verifies the
// kubelet.
func (c *Cluster) WriteNodeFiles(name string, address netip.Addr) error {
	admin, err := c.AdminClient()
	if err != nil {
		return err
	}
	authority := c.Credentials.Cluster
	// The Node authorizer derives the node's name from the user name.
	for _, part := range []struct{ name, user, group string }{
		{"kubelet", "system:node:" + name, "system:nodes"},
		{"kube-proxy", "system:kube-proxy", "system:node-proxier"},
	} {
		pair, err := authority.Issue(part.name, pki.Leaf{CommonName: part.user, Organizations: []string{part.group}, Client: true})
		if err != nil {
			return err
		}
		file := filepath.Join(filepath.Dir(c.Kubeconfig), "kubeconfig."+part.name)
		if err := writeKubeconfig(file, admin.Host, part.name, authority.File(), pair); err != nil {
			return err
		}
	}
	_, err = authority.Issue("kubelet-server", pki.Leaf{
		CommonName: "system:node:" + name, Organizations: []string{"system:nodes"}, Server: true,
		DNSNames: []string{name}, IPs: []net.IP{address.AsSlice()},
	})
	return err
}
