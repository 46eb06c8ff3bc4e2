// Command oracle answers worlds with kube-scheduler's own allocator.
//
// One JSON world a line on standard input (node, classes, slices, claims,
// allocated, features), one JSON answer a line on standard output: what the
// tests of our allocator compare with. A search that takes too long is
// answered by {"kind": "timeout"}.
//
// A line with an expression (and driver, attributes, capacity,
// allowMultipleAllocations of one device) is answered by what the selector says
// of the device, and at which cost.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

const patience = 5 * time.Second

type place struct {
	Driver   string                                          `json:"driver"`
	Pool     string                                          `json:"pool"`
	Device   string                                          `json:"device"`
	ShareID  string                                          `json:"shareID"`
	Consumed map[resourceapi.QualifiedName]resource.Quantity `json:"consumed"`
}

func (p place) id() structured.DeviceID {
	return structured.MakeDeviceID(p.Driver, p.Pool, p.Device)
}

type world struct {
	Features  structured.Features          `json:"features"`
	Node      *v1.Node                     `json:"node"`
	Classes   []*resourceapi.DeviceClass   `json:"classes"`
	Slices    []*resourceapi.ResourceSlice `json:"slices"`
	Claims    []*resourceapi.ResourceClaim `json:"claims"`
	Allocated struct {
		Devices  []place `json:"devices"`
		Shared   []place `json:"shared"`
		Capacity []place `json:"capacity"`
	} `json:"allocated"`
}

type question struct {
	Expression string                                                    `json:"expression"`
	Driver     string                                                    `json:"driver"`
	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
	Shareable  *bool                                                     `json:"allowMultipleAllocations"`
}

type answer struct {
	Kind    string                         `json:"kind"`
	Match   bool                           `json:"match,omitempty"`
	Cost    *uint64                        `json:"cost,omitempty"`
	Text    string                         `json:"text,omitempty"`
	Results []resourceapi.AllocationResult `json:"results,omitempty"`
	Error   *problem                       `json:"error,omitempty"`
}

type problem struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

type classes map[string]*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	var all []*resourceapi.DeviceClass
	for _, class := range c {
		all = append(all, class)
	}
	return all, nil
}

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := c[name]; class != nil {
		return class, nil
	}
	return nil, fmt.Errorf("device class %q not found", name)
}

func failed(err error) answer {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return answer{Kind: "timeout"}
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return answer{Kind: "error", Error: &problem{"node", err.Error()}}
	}
	return answer{Kind: "error", Error: &problem{"fatal", err.Error()}}
}

func solve(line []byte) answer {
	var w world
	if err := json.Unmarshal(line, &w); err != nil {
		return failed(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	known := classes{}
	for _, class := range w.Classes {
		known[class.Name] = class
	}
	used := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, p := range w.Allocated.Devices {
		used.AllocatedDevices.Insert(p.id())
	}
	for _, p := range w.Allocated.Shared {
		share := types.UID(p.ShareID)
		used.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(p.id(), &share))
	}
	for _, p := range w.Allocated.Capacity {
		used.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(p.id(), p.Consumed))
	}
	cache := cel.NewCache(100, cel.Features{
		EnableConsumableCapacity: w.Features.ConsumableCapacity,
		EnableListTypeAttributes: w.Features.ListTypeAttributes,
	})
	allocator, err := structured.NewAllocator(ctx, w.Features, used, known, w.Slices, cache)
	if err != nil {
		return failed(err)
	}
	results, err := allocator.Allocate(ctx, w.Node, w.Claims)
	switch {
	case err != nil:
		return failed(err)
	case len(results) == 0:
		return answer{Kind: "none"}
	}
	return answer{Kind: "results", Results: results}
}

func ask(q question) answer {
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	compiled := compiler.CompileCELExpression(q.Expression, cel.Options{DisableCostEstimation: true})
	if compiled.Error != nil {
		return answer{Kind: "compileError", Text: compiled.Error.Error()}
	}
	device := cel.Device{
		Driver: q.Driver, AllowMultipleAllocations: q.Shareable, Attributes: q.Attributes, Capacity: q.Capacity,
	}
	match, details, err := compiled.DeviceMatches(context.Background(), device)
	if err != nil {
		return answer{Kind: "matchError", Text: err.Error()}
	}
	return answer{Kind: "match", Match: match, Cost: details.ActualCost()}
}

func reply(line []byte) answer {
	var q question
	if err := json.Unmarshal(line, &q); err == nil && q.Expression != "" {
		return ask(q)
	}
	return solve(line)
}

func main() {
	// What kube-scheduler 1.37 runs with its default features, and the one with all features.
	structured.EnableAllocators("incubating", "experimental")
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			if err := out.Encode(reply(line)); err != nil {
				os.Exit(1)
			}
		}
		if err != nil {
			return
		}
	}
}
