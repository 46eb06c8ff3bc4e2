// The program of every container on a real node: it prints what it was given, and sleeps until it gets a signal to end.
//
//	inspector         one line per environment variable, device file, device metadata file and network interface, then `ready`
//	inspector pause   nothing; process 1 of a pod's sandbox
package main

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	if len(os.Args) < 2 || os.Args[1] != "pause" {
		report()
	}
	orphans := make(chan os.Signal, 16)
	signal.Notify(orphans, syscall.SIGCHLD)
	for {
		select {
		case <-orphans:
			for {
				pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
				if err != nil || pid <= 0 {
					break
				}
			}
		case <-stop:
			fmt.Println("told to end")
			return
		}
	}
}

func report() {
	for _, each := range os.Environ() {
		fmt.Println("env", each)
	}
	_ = filepath.WalkDir("/dev", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		info, err := entry.Info()
		if err != nil || info.Mode()&os.ModeCharDevice == 0 {
			return nil
		}
		number := uint64(info.Sys().(*syscall.Stat_t).Rdev)
		major := number>>8&0xfff | number>>32&^0xfff
		minor := number&0xff | number>>12&^0xff
		fmt.Printf("device %s %d:%d\n", path, major, minor)
		return nil
	})
	_ = filepath.WalkDir("/var/run/kubernetes.io/dra-device-attributes", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			content = []byte(err.Error())
		}
		fmt.Println("file", path, strings.Join(strings.Fields(string(content)), " "))
		return nil
	})
	interfaces, _ := net.Interfaces()
	for _, each := range interfaces {
		addresses, _ := each.Addrs()
		fmt.Println("interface", each.Name, each.MTU, addresses)
	}
	fmt.Println("ready")
}
