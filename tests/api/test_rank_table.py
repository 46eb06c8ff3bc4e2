"""HCCL's rank tables, as CANN's user guide has them."""

import json

from apportion.api.ranktable import Chip, rank_table, ring_of


def test_ranks_go_through_all_servers() -> None:
    """Template 1.0 with two servers: every value is text, and each chip has the address of its NIC."""
    chips = [
        Chip(node, f"npu-{number}", number, address=f"192.168.{at}.{number}")
        for at, node in ((1, "node-a"), (2, "node-b"))
        for number in (0, 1)
    ]
    assert json.loads(rank_table(chips)) == {
        "status": "completed",
        "version": "1.0",
        "server_count": "2",
        "server_list": [
            {
                "server_id": "node-a",
                "device": [
                    {"device_id": "0", "device_ip": "192.168.1.0", "rank_id": "0"},
                    {"device_id": "1", "device_ip": "192.168.1.1", "rank_id": "1"},
                ],
            },
            {
                "server_id": "node-b",
                "device": [
                    {"device_id": "0", "device_ip": "192.168.2.0", "rank_id": "2"},
                    {"device_id": "1", "device_ip": "192.168.2.1", "rank_id": "3"},
                ],
            },
        ],
    }


def test_a_server_is_there_once_although_others_have_ranks_in_between() -> None:
    """`server_id` is another one for each server, however many pods have chips there."""
    chips = [Chip("a", "npu-0", 0), Chip("b", "npu-0", 0), Chip("a", "npu-1", 1)]
    table = json.loads(rank_table(chips))
    assert [each["server_id"] for each in table["server_list"]] == ["a", "b"]
    assert [row["rank_id"] for row in table["server_list"][0]["device"]] == ["0", "2"]
    assert table["server_count"] == "2"


def test_chips_of_super_pods_have_their_ids_there() -> None:
    """Template 1.2: the id of each chip in its super pod, and the servers of each."""
    chips = [
        Chip(node, "npu-0", 0, address="10.0.0.1", super_pod=pod, super_device=device)
        for node, pod, device in (("a", 7, 11), ("b", 7, 12), ("c", 8, 11))
    ]
    table = json.loads(rank_table(chips))
    assert table["version"] == "1.2"
    assert [row["super_device_id"] for each in table["server_list"] for row in each["device"]] == [
        "11", "12", "11",
    ]  # fmt: skip
    assert table["super_pod_list"] == [
        {"super_pod_id": "7", "server_list": [{"server_id": "a"}, {"server_id": "b"}]},
        {"super_pod_id": "8", "server_list": [{"server_id": "c"}]},
    ]


def test_a_ring_crosses_from_group_to_group_as_seldom_as_it_can() -> None:
    """Groups by their first chip, chips by their physical ids."""
    chips = [
        Chip("a", f"npu-{number}", number, group)
        for number, group in ((3, "y"), (0, "x"), (2, "x"), (1, "y"))
    ]
    assert [chip.id for chip in ring_of(chips)] == [0, 2, 1, 3]
