package node

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"golang.org/x/sys/unix"
)

// defaultPort is the port of a container that declares no TCP port; the
// built-in image has the same default.
const defaultPort = 8080

// listenPort maps one container port to the port on which it really listens.
type listenPort struct {
	container string
	// initial marks a port of an init container that runs to completion;
	// Services never route to it.
	initial bool
	name    string
	port    int32
	real    uint16
}

// portMap maps the container ports of one Pod to real ports. Regular containers
// come first, then sidecars, then init containers: the order in which
// Kubernetes resolves a port. It is immutable once the Pod is attached.
type portMap struct {
	addr netip.Addr
	// direct means that a container port is the same port of addr, declared or
	// not. Otherwise only the listed ports exist.
	direct bool
	list   []listenPort
	// namespace is where the processes of the Pod run; nil is that of the node.
	namespace *podNamespace
}

// declaredPorts lists the TCP ports of a Pod, each mapped to its own number.
func declaredPorts(pod *corev1.Pod) []listenPort {
	var regular, sidecars, initial []listenPort
	for i := range pod.Spec.Containers {
		regular = append(regular, containerPorts(&pod.Spec.Containers[i], false)...)
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if isSidecar(c) {
			sidecars = append(sidecars, containerPorts(c, false)...)
		} else {
			initial = append(initial, containerPorts(c, true)...)
		}
	}
	return append(append(regular, sidecars...), initial...)
}

// containerPorts lists the TCP ports of one container, or the default port when
// it declares none. UDP and SCTP ports are skipped: the built-in images serve
// HTTP only.
func containerPorts(c *corev1.Container, initial bool) []listenPort {
	var ports []listenPort
	for _, p := range c.Ports {
		if p.Protocol != "" && p.Protocol != corev1.ProtocolTCP {
			continue
		}
		ports = append(ports, listenPort{container: c.Name, initial: initial, name: p.Name, port: p.ContainerPort, real: uint16(p.ContainerPort)})
	}
	if len(ports) == 0 {
		ports = append(ports, listenPort{container: c.Name, initial: initial, port: defaultPort, real: defaultPort})
	}
	return ports
}

// listen returns the value of SLIPWAY_DEMO_LISTEN for a container:
// containerPort=ip:port, separated by commas.
func (m portMap) listen(container string) string {
	var out []string
	for _, p := range m.list {
		if p.container == container {
			out = append(out, fmt.Sprintf("%d=%s", p.port, netip.AddrPortFrom(m.addr, p.real)))
		}
	}
	return strings.Join(out, ",")
}

// forService resolves the targetPort of a Service.
func (m portMap) forService(target intstr.IntOrString) (uint16, bool) {
	return m.find(target, func(p listenPort) bool { return !p.initial })
}

// forProbe resolves the port of a container's probe or hook. A number may
// belong to another container of the Pod, because they share one network
// namespace in Kubernetes; a name may not.
func (m portMap) forProbe(container string, target intstr.IntOrString) (uint16, bool) {
	if real, found := m.find(target, func(p listenPort) bool { return p.container == container }); found {
		return real, true
	}
	if target.Type == intstr.String {
		return 0, false
	}
	return m.find(target, func(listenPort) bool { return true })
}

// find returns the real port of the first match in the list. With direct, a
// number matches even if no container declares it.
func (m portMap) find(target intstr.IntOrString, among func(listenPort) bool) (uint16, bool) {
	for _, p := range m.list {
		if !among(p) {
			continue
		}
		if target.Type == intstr.String && p.name == target.StrVal && p.name != "" {
			return p.real, true
		}
		if target.Type == intstr.Int && p.port == target.IntVal {
			return p.real, true
		}
	}
	if m.direct && target.Type == intstr.Int && target.IntVal > 0 && target.IntVal <= 65535 {
		return uint16(target.IntVal), true
	}
	return 0, false
}

// reservedPorts is a portMap whose real ports are reserved as long as the Pod
// lives. sockets are file descriptors that the worker owns.
type reservedPorts struct {
	portMap
	sockets []int
}

// directPorts returns the portMap of a Pod that has an address of its own: no
// other process uses it, so nothing has to be reserved.
func directPorts(addr netip.Addr, pod *corev1.Pod) *reservedPorts {
	return &reservedPorts{portMap: portMap{addr: addr, direct: true, list: declaredPorts(pod)}}
}

// reservePorts maps each port of the Pod to a free port of addr. The node keeps
// a bound socket that does not listen: no other process can take the port while
// the container restarts, and a connection meanwhile is refused. The process
// binds the same port with SO_REUSEPORT, which Linux allows to the same user
// only. The node's socket must not have SO_REUSEADDR: with it, Linux would give
// the port to any listener that has it too, and nearly all have. On error
// nothing stays reserved.
func reservePorts(addr netip.Addr, pod *corev1.Pod) (*reservedPorts, error) {
	r := &reservedPorts{portMap: portMap{addr: addr, list: declaredPorts(pod)}}
	for i := range r.list {
		socket, port, err := bindFreePort(addr)
		if err != nil {
			r.release()
			return nil, fmt.Errorf("reserve a port of %s for container %q: %w", addr, r.list[i].container, err)
		}
		r.sockets = append(r.sockets, socket)
		r.list[i].real = port
	}
	return r, nil
}

// release closes the sockets, which frees the ports, and the Pod's namespace. It
// may be called more than once.
func (r *reservedPorts) release() {
	if r.namespace != nil {
		r.namespace.close()
		r.namespace = nil
	}
	for _, socket := range r.sockets {
		unix.Close(socket)
	}
	r.sockets = nil
}

// bindFreePort binds a TCP socket to a port that the kernel chooses, and
// returns both. It uses raw system calls, because net.Listen would also listen.
// SOCK_CLOEXEC keeps the socket out of the containers' processes.
func bindFreePort(addr netip.Addr) (socket int, port uint16, err error) {
	family := unix.AF_INET6
	var sockaddr unix.Sockaddr = &unix.SockaddrInet6{Addr: addr.As16()}
	if addr.Is4() {
		family, sockaddr = unix.AF_INET, &unix.SockaddrInet4{Addr: addr.As4()}
	}
	socket, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		if err != nil {
			unix.Close(socket)
		}
	}()
	if err = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return 0, 0, err
	}
	if err = unix.Bind(socket, sockaddr); err != nil {
		return 0, 0, err
	}
	bound, err := unix.Getsockname(socket)
	if err != nil {
		return 0, 0, err
	}
	switch at := bound.(type) {
	case *unix.SockaddrInet4:
		return socket, uint16(at.Port), nil
	case *unix.SockaddrInet6:
		return socket, uint16(at.Port), nil
	}
	return 0, 0, fmt.Errorf("the kernel returned an address of another family: %T", bound)
}
