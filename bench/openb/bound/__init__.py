"""A bound for the openb replay, no part of the product: a policy that knows the demand of the whole pod list beforehand.

It prices placements by the principle of the product's strategy LeastFragmentation, on the model of `bench.openb.model` instead of
ResourceSlices and claims, and with every price derived from the complete pod list instead of learned from recent claims.
It bounds what pricing can be expected to reach on this trace: a product that has to learn the demand should not reach more. It is
no proven optimum; another policy may allocate more.
"""
