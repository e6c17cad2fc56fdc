class Transform:
    pass
