package node

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"slipway.dev/slipway/devcluster/must"
)

// portPod has two regular containers, a sidecar, an init container, and one container that declares nothing.
func portPod() *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	return &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{
			{Name: "setup", Ports: []corev1.ContainerPort{{Name: "setup", ContainerPort: 70}}},
			{Name: "mesh", RestartPolicy: &always, Ports: []corev1.ContainerPort{{Name: "admin", ContainerPort: 15000}, {Name: "web", ContainerPort: 15001}}},
		},
		Containers: []corev1.Container{
			{Name: "main", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 80, Protocol: corev1.ProtocolTCP}, {ContainerPort: 81}, {Name: "dns", ContainerPort: 53, Protocol: corev1.ProtocolUDP}}},
			{Name: "plain"},
		},
	}}
}

func TestPortMap(t *testing.T) {
	ports := portMap{addr: netip.MustParseAddr("192.0.2.7"), list: declaredPorts(portPod())}
	for i := range ports.list {
		ports.list[i].real = uint16(40000 + i)
	}
	if got, want := ports.listen("main"), "80=192.0.2.7:40000,81=192.0.2.7:40001"; got != want {
		t.Errorf("main listens on %q, want %q", got, want)
	}
	if got, want := ports.listen("plain"), "8080=192.0.2.7:40002"; got != want {
		t.Errorf("plain listens on %q, want %q", got, want)
	}
	for _, tt := range []struct {
		target           intstr.IntOrString
		service, probing uint16 // 0: none; the probe is of the container "plain"
	}{
		{intstr.FromInt32(80), 40000, 40000},
		{intstr.FromString("web"), 40000, 0}, // the regular container before the sidecar; names are a container's own
		{intstr.FromString("admin"), 40003, 0},
		{intstr.FromInt32(8080), 40002, 40002}, // the default of a container without ports
		{intstr.FromInt32(70), 0, 40005},       // Services never lead to an init container
		{intstr.FromString("setup"), 0, 0},
		{intstr.FromString("dns"), 0, 0}, // not TCP
		{intstr.FromInt32(9999), 0, 0},
		{intstr.FromString(""), 0, 0},
	} {
		if got, found := ports.forService(tt.target); got != tt.service || found != (tt.service != 0) {
			t.Errorf("forService(%s) = %d, %v; want %d", tt.target.String(), got, found, tt.service)
		}
		if got, found := ports.forProbe("plain", tt.target); got != tt.probing || found != (tt.probing != 0) {
			t.Errorf("forProbe(%s) = %d, %v; want %d", tt.target.String(), got, found, tt.probing)
		}
	}
}

func TestDirectPorts(t *testing.T) {
	ports := directPorts(netip.MustParseAddr("10.244.0.2"), portPod())
	if got, want := ports.listen("main"), "80=10.244.0.2:80,81=10.244.0.2:81"; got != want {
		t.Errorf("main listens on %q, want %q", got, want)
	}
	if got, found := ports.forService(intstr.FromInt32(9999)); got != 9999 || !found {
		t.Errorf("an undeclared port is %d, %v; with an address of its own it is itself", got, found)
	}
	if _, found := ports.forProbe("main", intstr.FromInt32(70000)); found {
		t.Error("70000 is no port")
	}
}

func TestReservePorts(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "::1"} {
		t.Run(address, func(t *testing.T) {
			addr := netip.MustParseAddr(address)
			reserved := must.Get(reservePorts(addr, portPod()))(t)
			defer reserved.release()
			seen := map[uint16]bool{}
			for _, p := range reserved.list {
				if seen[p.real] {
					t.Errorf("port %d was given out twice", p.real)
				}
				seen[p.real] = true
			}
			at := netip.AddrPortFrom(addr, reserved.list[0].real).String()
			if _, err := net.Dial("tcp", at); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("dialling a reserved port gave %v, want it refused", err)
			}
			if l, err := net.Listen("tcp", at); !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("another listener got the reserved port: %v, %v", l, err)
			}
			reserved.release()
			reserved.release()
			l, err := net.Listen("tcp", at)
			if err != nil {
				t.Fatalf("a released port is not free: %v", err)
			}
			l.Close()
		})
	}
}
